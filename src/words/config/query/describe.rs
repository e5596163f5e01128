//! Describes a query by its keys and operators, to explain routing. Operands are left out: they may be
//! secret.

use super::{Field, Part, Query, Test};

impl Query {
    /// One line for each value the query tests, in order, such as `metadata.tier $eq`.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.describe_into(&mut lines);
        lines
    }

    fn describe_into(&self, lines: &mut Vec<String>) {
        for part in &self.parts {
            match part {
                Part::All(queries) | Part::Any(queries) => {
                    queries.iter().for_each(|query| query.describe_into(lines));
                }
                Part::Value(field, tests) => {
                    let operators: Vec<&str> = tests.iter().map(Test::operator).collect();
                    lines.push(format!("{} {}", field.key(), operators.join(" ")));
                }
            }
        }
    }
}

impl Field {
    fn key(&self) -> String {
        match self {
            Self::Metadata(name) => format!("metadata.{name}"),
            Self::Param(name) => format!("params.{name}"),
            Self::Header(name) => format!("headers.{name}"),
            Self::Pathname => "url.pathname".to_owned(),
        }
    }
}

impl Test {
    fn operator(&self) -> &'static str {
        match self {
            Self::Is(_) => "$eq",
            Self::IsNot(_) => "$ne",
            Self::In(_) => "$in",
            Self::NotIn(_) => "$nin",
            Self::Above(_) => "$gt",
            Self::AtLeast(_) => "$gte",
            Self::Below(_) => "$lt",
            Self::AtMost(_) => "$lte",
            Self::Matches(_) => "$regex",
        }
    }
}
