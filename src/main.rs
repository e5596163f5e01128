//! The command line: reads flags and settings, wires the services together, runs.

fn main() {}
