"""Sources whose rows an engine of SQL gives: a database server, a database file, a folder with a log."""
