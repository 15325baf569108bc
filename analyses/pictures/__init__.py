"""What is to be seen of the results of each analysis: a module with a function `picture` for each."""
