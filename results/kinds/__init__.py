"""The results of each analysis: a file with its class, its lines of text and its picture."""
