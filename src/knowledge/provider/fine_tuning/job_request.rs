//! OpenAI's request for a fine-tuning job, taken apart member by member.
//!
//! A vendor takes what it has; whatever is left is refused by name, so that nothing a client sets is silently without effect.
//! Source: <https://platform.openai.com/docs/api-reference/fine-tuning/create>.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use words::api::body::Body;
use words::error::Error;

/// How the model learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Supervised,
    Dpo,
    Reinforcement,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supervised => "supervised",
            Self::Dpo => "dpo",
            Self::Reinforcement => "reinforcement",
        }
    }

    fn find(name: &str) -> Option<Self> {
        [Self::Supervised, Self::Dpo, Self::Reinforcement].into_iter().find(|method| method.as_str() == name)
    }
}

/// An integration with Weights & Biases.
#[derive(Debug, Default, serde::Deserialize)]
pub struct Wandb {
    pub project: String,
    pub name: Option<String>,
    pub entity: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Not OpenAI's: vendors that keep no key of the customer need one in the request.
    pub api_key: Option<String>,
}

/// A value of the hyperparameters, with the path that names it in errors.
#[derive(Debug)]
struct Setting {
    param: String,
    value: Value,
}

/// A request that is being taken apart.
#[derive(Debug)]
pub struct JobRequest {
    provider: &'static str,
    members: Map<String, Value>,
    settings: BTreeMap<String, Setting>,
    /// The names of the hyperparameters that the vendor has.
    offered: Vec<&'static str>,
    method: Method,
}

impl JobRequest {
    /// Members that are `null`, and hyperparameters that are `"auto"`, count as absent.
    ///
    /// # Errors
    /// 400 for a body that is no object, or whose `method` or hyperparameters cannot be read.
    pub fn read(body: Option<&Body>, provider: &'static str) -> Result<Self, Error> {
        let members: Option<Map<String, Value>> =
            body.and_then(|body| serde_json::from_slice(body.bytes()).ok());
        let Some(mut members) = members else {
            return Err(Error::bad_request("The request body must be a JSON object."));
        };
        members.retain(|_, value| !value.is_null());
        let older = members.remove("hyperparameters");
        let chosen = members.remove("method");
        let mut request = Self {
            provider,
            members,
            settings: BTreeMap::new(),
            offered: Vec::new(),
            method: Method::Supervised,
        };
        if let Some(older) = older {
            request.add_settings("hyperparameters", older)?;
        }
        if let Some(chosen) = chosen {
            request.read_method(chosen)?;
        }
        Ok(request)
    }

    fn read_method(&mut self, chosen: Value) -> Result<(), Error> {
        let Value::Object(mut chosen) = chosen else {
            return Err(Error::invalid_request("method", "method must be an object."));
        };
        chosen.retain(|_, value| !value.is_null());
        if let Some(name) = chosen.remove("type") {
            let method = name.as_str().and_then(Method::find).ok_or_else(|| {
                Error::invalid_request("method.type", "method.type must be supervised, dpo or reinforcement.")
            })?;
            self.method = method;
        }
        let name = self.method.as_str();
        let own = chosen.remove(name);
        if let Some((other, _)) = chosen.iter().next() {
            return Err(self.refused(&format!("method.{other}"), &format!("goes with method.type {name}")));
        }
        let own = match own {
            None => return Ok(()),
            Some(Value::Object(own)) => own,
            Some(_) => {
                let param = format!("method.{name}");
                return Err(Error::invalid_request(&param, format!("{param} must be an object.")));
            }
        };
        for (member, value) in own {
            let param = format!("method.{name}.{member}");
            match member.as_str() {
                _ if value.is_null() => {}
                "hyperparameters" => self.add_settings(&param, value)?,
                // Refused at the end: the method may be another problem.
                _ => drop(self.members.insert(param, value)),
            }
        }
        Ok(())
    }

    fn add_settings(&mut self, param: &str, settings: Value) -> Result<(), Error> {
        let Value::Object(settings) = settings else {
            return Err(Error::invalid_request(param, format!("{param} must be an object.")));
        };
        for (name, value) in settings {
            if value.is_null() || value == "auto" {
                continue;
            }
            let setting = Setting { param: format!("{param}.{name}"), value };
            let before = self.settings.get(&name).filter(|before| before.value != setting.value);
            if let Some(before) = before {
                let message = format!(
                    "{} and {} have different values. Send one of them.",
                    before.param, setting.param
                );
                return Err(Error::invalid_request(&setting.param, message));
            }
            self.settings.insert(name, setting);
        }
        Ok(())
    }

    /// The method, one of those that the vendor has.
    ///
    /// # Errors
    /// 400 for any other.
    pub fn method(&self, possible: &[Method]) -> Result<Method, Error> {
        if possible.contains(&self.method) {
            return Ok(self.method);
        }
        let names: Vec<&str> = possible.iter().map(|method| method.as_str()).collect();
        let message = format!(
            "{} has no method {}, only {}.",
            self.provider,
            self.method.as_str(),
            names.join(" and ")
        );
        Err(Error::invalid_request("method.type", message).with_provider(self.provider))
    }

    /// Takes a member.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// Takes a member that is a text; an empty one counts as absent.
    ///
    /// # Errors
    /// 400 for anything but a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(_) => Err(Error::invalid_request(name, format!("{name} must be a text."))),
        }
    }

    /// Takes a text that must be there.
    ///
    /// # Errors
    /// 400 without it.
    pub fn required(&mut self, name: &str) -> Result<String, Error> {
        self.text(name)?.ok_or_else(|| {
            Error::invalid_request(name, format!("{} needs {name} for a fine-tuning job.", self.provider))
                .with_provider(self.provider)
        })
    }

    /// Takes a hyperparameter that is a number of at least 0.
    ///
    /// # Errors
    /// 400 for anything but such a number.
    pub fn number(&mut self, name: &'static str) -> Result<Option<Value>, Error> {
        self.setting(name, "a number of at least 0", |value| {
            value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0)
        })
    }

    /// Takes a hyperparameter that is a whole number of at least 1.
    ///
    /// # Errors
    /// 400 for anything but such a number.
    pub fn count(&mut self, name: &'static str) -> Result<Option<u64>, Error> {
        let count = self.setting(name, "a whole number of at least 1", |value| {
            value.as_u64().is_some_and(|number| number >= 1)
        })?;
        Ok(count.and_then(|value| value.as_u64()))
    }

    fn setting(
        &mut self,
        name: &'static str,
        wanted: &str,
        fits: impl FnOnce(&Value) -> bool,
    ) -> Result<Option<Value>, Error> {
        self.offered.push(name);
        let Some(Setting { param, value }) = self.settings.remove(name) else { return Ok(None) };
        if fits(&value) {
            return Ok(Some(value));
        }
        Err(Error::invalid_request(&param, format!("{param} must be {wanted}, or \"auto\".")))
    }

    /// Takes the integration; vendors have one at most.
    ///
    /// # Errors
    /// 400 for several, for one of another kind than Weights & Biases, and for one without a project.
    pub fn wandb(&mut self) -> Result<Option<Wandb>, Error> {
        let integrations = match self.members.remove("integrations") {
            None => return Ok(None),
            Some(Value::Array(integrations)) => integrations,
            Some(_) => return Err(Error::invalid_request("integrations", "integrations must be a list.")),
        };
        let mut integrations = integrations.into_iter();
        let Some(mut first) = integrations.next() else { return Ok(None) };
        if integrations.next().is_some() {
            let message = format!("{} takes one integration.", self.provider);
            return Err(Error::invalid_request("integrations", message).with_provider(self.provider));
        }
        if first.get("type").and_then(Value::as_str) != Some("wandb") {
            let message = format!("{} has only the integration wandb.", self.provider);
            return Err(Error::invalid_request("integrations[0].type", message).with_provider(self.provider));
        }
        let wandb = first.get_mut("wandb").map(Value::take).unwrap_or_default();
        let wandb = serde_json::from_value(wandb).map_err(|_| {
            let message =
                "integrations[0].wandb must be an object with a project, and texts in name, entity and tags.";
            Error::invalid_request("integrations[0].wandb", message)
        })?;
        Ok(Some(wandb))
    }

    /// The error for something that the vendor lacks. `what`: the end of the sentence.
    pub fn refused(&self, param: &str, what: &str) -> Error {
        let message = format!("{}: {param} {what}. Leave it out.", self.provider);
        Error::invalid_request(param, message).with_provider(self.provider)
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// 400 for what was not taken: the vendor has nothing like it.
    pub fn finish(self) -> Result<(), Error> {
        if let Some((name, setting)) = self.settings.iter().next() {
            let what = format!("is not possible, there is no {name}, only {}", self.offered.join(", "));
            return Err(self.refused(&setting.param, &what));
        }
        match self.members.keys().next() {
            Some(name) => Err(self.refused(name, "has no counterpart for fine-tuning jobs")),
            None => Ok(()),
        }
    }
}
