"""What jobs have found, as objects: tables, arrays under the names of scikit-learn, and predictions."""
