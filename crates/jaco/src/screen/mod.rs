//! The terminal view of the cluster. [`content`] says what there is to see, [`state`] what is looked at and what keys do,
//! [`draw`] puts both on a screen. None of them knows the terminal or the cluster.

pub(crate) mod content;
pub(crate) mod draw;
pub(crate) mod state;
