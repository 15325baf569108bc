"""What was found, for people: of each analysis its result as an object, its lines of text and its picture."""
