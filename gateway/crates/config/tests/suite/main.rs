//! The configuration as its users meet it: texts, files and variables in, settings and errors out.

mod diagnosis;
mod errors;
mod load;
mod reference;
