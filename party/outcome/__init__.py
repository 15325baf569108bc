"""What is left of a job: a report for the owner, a receipt for others."""
