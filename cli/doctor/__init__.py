"""What `moiety doctor` checks of one member, one module per kind of check. `cli.diagnosis` is the command."""
