//! The proxy alone, in front of a server that says how often it was asked.

