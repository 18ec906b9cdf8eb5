"""Pure decisions about pressure: when to wait, how long, and when to stop taking work in."""
