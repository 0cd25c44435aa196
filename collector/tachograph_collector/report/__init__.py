"""How the books are shown: terminal, JSON, tables, HTML, data frames."""
