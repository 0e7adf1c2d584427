//! How the outside speaks to Custody: protocol and trace formats.
