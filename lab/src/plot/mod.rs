//! Pictures of measurements, as SVG: the same figures give the same bytes.
//!
//! Each picture is one function from data to the text of a file. Colours are those of Okabe and Ito, told
//! apart by people with any colour vision, and every series has a dash of its own besides. The legend stands
//! beside the data, never on it. A viewer with a dark theme gets a dark background.
//!
//! - [`roc`], [`reliability`], [`latency`], [`bars`], [`sankey`], [`points`]: the pictures.
//! - `frame`: axes and what lies between them. `svg`: elements and escaped text.

pub mod roc;

pub mod reliability;

pub mod latency;

pub mod bars;

pub mod sankey;

pub mod points;

mod frame;

mod svg;
