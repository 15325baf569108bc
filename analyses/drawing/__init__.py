"""Pictures as data, and how they are drawn: as SVG by ourselves, as PNG and as figures by matplotlib."""
