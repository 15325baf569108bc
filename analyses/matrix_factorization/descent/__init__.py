"""The form `sgd` of the paper, corrected: projected gradient descent, and what it is compared with."""
