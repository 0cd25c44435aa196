"""The node's agent: follows what ranks and trainers write, ships it, and says what a process can't say itself."""
