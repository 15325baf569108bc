"""Files that services keep and people write: text in UTF-8 (`text_file`), reports of their owner (`private_report`)."""
