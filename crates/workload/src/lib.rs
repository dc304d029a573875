//! Placeholder while the slice grows.
