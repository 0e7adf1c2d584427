//! Whether our claims hold: measurements a stranger can repeat.
