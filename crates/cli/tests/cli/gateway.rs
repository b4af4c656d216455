//! The gateway: chat completions over HTTP, message by message.

mod answers;
mod faults;
mod models;
mod streams;
mod support;
mod tools;
