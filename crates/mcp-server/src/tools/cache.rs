//! Keeps published tools, because publishing a schema takes longer than listing it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rmcp::model::Tool;
use sha2::{Digest as _, Sha256};

/// The most tools that are kept. Agents that are changed again and again would otherwise fill the memory.
const TOOLS_MAX: usize = 2_000;

/// Published tools by the hash of what they are made of. `None` for agents that cannot be published.
#[derive(Default)]
pub(crate) struct ToolCache(Mutex<HashMap<[u8; 32], Option<Tool>>>);

impl ToolCache {
    /// Returns the tool for this source, and makes it unless it is known.
    pub(crate) fn get_or_make(&self, source: &str, make: impl FnOnce() -> Option<Tool>) -> Option<Tool> {
        let hash: [u8; 32] = Sha256::digest(source.as_bytes()).into();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(tool) = known {
            return tool;
        }
        let tool = make();
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.len() >= TOOLS_MAX {
            tools.clear();
        }
        tools.insert(hash, tool.clone());
        tool
    }
}
