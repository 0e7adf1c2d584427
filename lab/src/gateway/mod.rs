//! What the gateway costs: the real `custody serve` between a load and a scripted model, beside other proxies.
//!
//! [`suite`]: the whole. [`overhead`]: custody, nginx, LiteLLM's proxy and no proxy, in turns. [`growth`]: long
//! sessions and long bodies. [`hook`]: the hooks of a coding agent. [`hosts`]: what `integrations/hosts` counted.
//!
//! `product` starts `custody`, `proxies` the others, `upstream` the model, `load` the requests, whose texts `texts`
//! makes.

mod child;
pub mod growth;
pub mod hook;
pub mod hosts;
mod load;
pub mod overhead;
mod product;
mod proxies;
mod service_log;
pub mod suite;
mod tables;
mod texts;
mod upstream;
