"""Setting up a federation: certificates (`pki`), and a folder for each member (`new`)."""
