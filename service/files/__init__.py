"""Files that services keep and people write: SQLite transactions (`sqlite`), text in UTF-8 (`text_file`)."""
