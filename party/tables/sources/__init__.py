"""Where rows of tables are stored, and how they are read from there, batch by batch: one module per kind of source."""
