"""What a run will cost and what would make it cheaper, from a design's numbers: pure, nothing read or drawn here."""
