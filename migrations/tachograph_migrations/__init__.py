"""Database migrations, one revision a module."""
