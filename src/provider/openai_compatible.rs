//! Providers that speak our shape: one row each.

use super::{Call, Provider};
use crate::config::account::Account;
use crate::error::Error;
use http::HeaderMap;
use std::borrow::Cow;

/// One vendor whose API is OpenAI's.
#[derive(Debug)]
pub struct Row {
    pub id: &'static str,
    pub base_url: &'static str,
}

/// The list.
pub static ROWS: &[Row] = &[Row { id: "openai", base_url: "https://api.openai.com/v1" }];

/// Finds a row by id or alias.
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

impl Provider for Row {
    fn id(&self) -> &'static str {
        self.id
    }

    fn base_url(&self, _account: &Account) -> Result<Cow<'static, str>, Error> {
        Ok(Cow::Borrowed(self.base_url))
    }

    fn path(&self, call: &Call<'_>, _account: &Account) -> Result<String, Error> {
        Ok(format!("/{}", call.path))
    }

    fn authorize(&self, _account: &Account, _headers: &mut HeaderMap) -> Result<(), Error> {
        Ok(())
    }
}
