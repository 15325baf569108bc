"""The coordinator: takes jobs from analysts, runs them with the parties, keeps their state."""
