"""Everything that is stored, and nothing about what it means: SQLAlchemy over SQLite or PostgreSQL."""
