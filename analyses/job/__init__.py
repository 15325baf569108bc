"""What every analysis has in common: the job, the public columns, the plan."""
