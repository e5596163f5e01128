//! The columns of rows, in one order for all databases: their names, their types, and the values of a row.
//!
//! Knows no SQL beyond the names of types. A new column comes last, with a step in each database's migrations.

use super::{Row, RowKind, Text};
use uuid::Uuid;

/// A column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// 64 bits; flags are 0 and 1.
    Int,
    Text,
    Uuid,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Uuid(Uuid),
}

/// Reads one row's values in the order of [`COLUMNS`].
pub trait ValueReader {
    type Error;

    /// The next column, an integer.
    ///
    /// # Errors
    /// The database's: the column has another type.
    fn int(&mut self) -> Result<Option<i64>, Self::Error>;
    /// The next column, a text.
    ///
    /// # Errors
    /// As for `int`.
    fn text(&mut self) -> Result<Option<Text>, Self::Error>;
    /// The next column, an id.
    ///
    /// # Errors
    /// As for `int`.
    fn uuid(&mut self) -> Result<Option<Uuid>, Self::Error>;
}

use ColumnType::{Int, Text as Txt, Uuid as Id};

/// All columns but the key, which each database makes of `id` and `created_ms` in its own way.
pub const COLUMNS: [(&str, ColumnType); 54] = [
    ("id", Id),
    ("kind", Int),
    ("request", Id),
    ("attempt", Int),
    ("created_ms", Int),
    ("trace_id", Txt),
    ("span_id", Txt),
    ("parent_span_id", Txt),
    ("span_name", Txt),
    ("workspace", Id),
    ("workspace_slug", Txt),
    ("api_key", Txt),
    ("api_key_name", Txt),
    ("user_name", Txt),
    ("metadata", Txt),
    ("operation", Txt),
    ("method", Txt),
    ("path", Txt),
    ("provider", Txt),
    ("vendor", Txt),
    ("model", Txt),
    ("response_model", Txt),
    ("config", Txt),
    ("prompt", Txt),
    ("prompt_version", Id),
    ("status", Int),
    ("error_code", Txt),
    ("is_success", Int),
    ("streamed", Int),
    ("responded", Int),
    ("is_custom", Int),
    ("cache_status", Txt),
    ("cache_type", Txt),
    ("input_tokens", Int),
    ("output_tokens", Int),
    ("total_tokens", Int),
    ("cached_tokens", Int),
    ("cache_write_tokens", Int),
    ("reasoning_tokens", Int),
    ("usage_source", Txt),
    ("cost", Int),
    ("cost_status", Txt),
    ("price_version", Txt),
    ("rates_hash", Int),
    ("saved_cost", Int),
    ("latency_us", Int),
    ("upstream_us", Int),
    ("overhead_us", Int),
    ("first_token_us", Int),
    ("retries", Int),
    ("is_fallback", Int),
    ("target", Txt),
    ("bytes_in", Int),
    ("bytes_out", Int),
];

impl Row {
    /// Its values, in the order of [`COLUMNS`].
    pub fn values(&self) -> [Value<'_>; COLUMNS.len()] {
        [
            Value::Uuid(self.id),
            Value::Int(self.kind.number()),
            id(self.request),
            count(self.attempt.map(u64::from)),
            Value::Int(self.created_ms),
            Value::Text(&self.trace_id),
            text(&self.span_id),
            text(&self.parent_span_id),
            text(&self.span_name),
            id(self.workspace),
            text(&self.workspace_slug),
            text(&self.api_key),
            text(&self.api_key_name),
            text(&self.user),
            text(&self.metadata),
            Value::Text(&self.operation),
            Value::Text(&self.method),
            Value::Text(&self.path),
            text(&self.provider),
            text(&self.vendor),
            text(&self.model),
            text(&self.response_model),
            text(&self.config),
            text(&self.prompt),
            id(self.prompt_version),
            Value::Int(self.status.into()),
            text(&self.error_code),
            Value::Int(self.is_success.into()),
            Value::Int(self.streamed.into()),
            Value::Int(self.responded.into()),
            Value::Int(self.is_custom.into()),
            text(&self.cache_status),
            text(&self.cache_type),
            count(self.input_tokens),
            count(self.output_tokens),
            count(self.total_tokens),
            count(self.cached_tokens),
            count(self.cache_write_tokens),
            count(self.reasoning_tokens),
            text(&self.usage_source),
            self.cost.map_or(Value::Null, Value::Int),
            text(&self.cost_status),
            text(&self.price_version),
            // All 64 bits, as a signed number.
            self.rates_hash.map_or(Value::Null, |hash| Value::Int(hash.cast_signed())),
            self.saved_cost.map_or(Value::Null, Value::Int),
            count(Some(self.latency_us)),
            count(Some(self.upstream_us)),
            count(Some(self.overhead_us)),
            count(self.first_token_us),
            Value::Int(self.retries.into()),
            Value::Int(self.is_fallback.into()),
            text(&self.target),
            count(Some(self.bytes_in)),
            count(Some(self.bytes_out)),
        ]
    }

    /// The row of values in the order of [`COLUMNS`].
    ///
    /// # Errors
    /// The reader's.
    pub fn read<R: ValueReader>(from: &mut R) -> Result<Self, R::Error> {
        Ok(Self {
            id: from.uuid()?.unwrap_or_default(),
            kind: RowKind::from_number(number(from)?),
            request: from.uuid()?,
            attempt: from.int()?.and_then(|number| u32::try_from(number).ok()),
            created_ms: number(from)?,
            trace_id: required(from)?,
            span_id: from.text()?,
            parent_span_id: from.text()?,
            span_name: from.text()?,
            workspace: from.uuid()?,
            workspace_slug: from.text()?,
            api_key: from.text()?,
            api_key_name: from.text()?,
            user: from.text()?,
            metadata: from.text()?,
            operation: required(from)?,
            method: required(from)?,
            path: required(from)?,
            provider: from.text()?,
            vendor: from.text()?,
            model: from.text()?,
            response_model: from.text()?,
            config: from.text()?,
            prompt: from.text()?,
            prompt_version: from.uuid()?,
            status: u16::try_from(number(from)?).unwrap_or_default(),
            error_code: from.text()?,
            is_success: number(from)? != 0,
            streamed: number(from)? != 0,
            responded: number(from)? != 0,
            is_custom: number(from)? != 0,
            cache_status: from.text()?,
            cache_type: from.text()?,
            input_tokens: unsigned(from)?,
            output_tokens: unsigned(from)?,
            total_tokens: unsigned(from)?,
            cached_tokens: unsigned(from)?,
            cache_write_tokens: unsigned(from)?,
            reasoning_tokens: unsigned(from)?,
            usage_source: from.text()?,
            cost: from.int()?,
            cost_status: from.text()?,
            price_version: from.text()?,
            rates_hash: from.int()?.map(i64::cast_unsigned),
            saved_cost: from.int()?,
            latency_us: unsigned(from)?.unwrap_or_default(),
            upstream_us: unsigned(from)?.unwrap_or_default(),
            overhead_us: unsigned(from)?.unwrap_or_default(),
            first_token_us: unsigned(from)?,
            retries: i32::try_from(number(from)?).unwrap_or_default(),
            is_fallback: number(from)? != 0,
            target: from.text()?,
            bytes_in: unsigned(from)?.unwrap_or_default(),
            bytes_out: unsigned(from)?.unwrap_or_default(),
        })
    }
}

fn text(text: &Option<Text>) -> Value<'_> {
    text.as_deref().map_or(Value::Null, Value::Text)
}

fn id(id: Option<Uuid>) -> Value<'static> {
    id.map_or(Value::Null, Value::Uuid)
}

/// Databases have signed integers only.
fn count(count: Option<u64>) -> Value<'static> {
    count.map_or(Value::Null, |count| Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn number<R: ValueReader>(from: &mut R) -> Result<i64, R::Error> {
    Ok(from.int()?.unwrap_or_default())
}

fn unsigned<R: ValueReader>(from: &mut R) -> Result<Option<u64>, R::Error> {
    Ok(from.int()?.and_then(|number| u64::try_from(number).ok()))
}

fn required<R: ValueReader>(from: &mut R) -> Result<Text, R::Error> {
    Ok(from.text()?.unwrap_or(Text::new("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::row::sample;

    /// Reads back what [`Row::values`] gives, and checks the types on the way.
    struct Values<'a>(Vec<(Value<'a>, ColumnType)>);

    impl<'a> Values<'a> {
        fn take(&mut self, wanted: ColumnType) -> Value<'a> {
            let (value, found) = self.0.remove(0);
            assert_eq!(found, wanted, "{} columns are left", self.0.len());
            value
        }
    }

    impl ValueReader for Values<'_> {
        type Error = ();

        fn int(&mut self) -> Result<Option<i64>, ()> {
            match self.take(ColumnType::Int) {
                Value::Int(number) => Ok(Some(number)),
                value => Ok((value != Value::Null).then(|| panic!("{value:?}"))),
            }
        }

        fn text(&mut self) -> Result<Option<Text>, ()> {
            match self.take(ColumnType::Text) {
                Value::Text(text) => Ok(Some(Text::from(text.to_owned()))),
                value => Ok((value != Value::Null).then(|| panic!("{value:?}"))),
            }
        }

        fn uuid(&mut self) -> Result<Option<Uuid>, ()> {
            match self.take(ColumnType::Uuid) {
                Value::Uuid(id) => Ok(Some(id)),
                value => Ok((value != Value::Null).then(|| panic!("{value:?}"))),
            }
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was() {
        let row = sample(7);
        let typed = |(value, (_, kind)): (Value<'static>, &(&str, ColumnType))| (value, *kind);
        let row: &'static Row = Box::leak(Box::new(row));
        let mut values = Values(row.values().into_iter().zip(&COLUMNS).map(typed).collect());
        assert_eq!(Row::read(&mut values).unwrap(), *row);
        assert!(values.0.is_empty());
    }
}
