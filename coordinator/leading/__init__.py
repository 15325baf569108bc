"""Which of several coordinators with one database leads: the database, the lease in it, and those that stand by."""
