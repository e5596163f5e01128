//! An alert as a mail, over SMTP with TLS and authentication.
//!
//! Not here: who gets it, and repeats (`mod`).

use super::Failure;
use super::alert::Alert;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::time::Duration;
use words::settings::alerts::{Smtp, SmtpTls};

/// For each command of the exchange.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// # Errors
    /// What of the settings cannot be used.
    pub async fn new(smtp: &Smtp) -> Result<Self, String> {
        let from = mailbox(&smtp.from)?;
        let tls = match smtp.tls {
            SmtpTls::StartTls => Tls::Required(parameters(smtp).await?),
            SmtpTls::Tls => Tls::Wrapper(parameters(smtp).await?),
            SmtpTls::Off => Tls::None,
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&smtp.host)
            .port(smtp.port)
            .tls(tls)
            .timeout(Some(TIMEOUT));
        if let (Some(username), Some(password)) = (&smtp.username, &smtp.password) {
            builder = builder.credentials(Credentials::new(username.clone(), password.expose().to_owned()));
        }
        Ok(Self { transport: builder.build(), from })
    }

    pub async fn send(&self, alert: &Alert, to: &str) -> Result<(), Failure> {
        let message = self.message(alert, to).map_err(Failure::Permanent)?;
        let sent = self.transport.send(message).await;
        sent.map(drop).map_err(|why| {
            let text = chain(&why);
            if why.is_permanent() { Failure::Permanent(text) } else { Failure::Temporary(text) }
        })
    }

    fn message(&self, alert: &Alert, to: &str) -> Result<Message, String> {
        let message = Message::builder()
            .from(self.from.clone())
            .to(mailbox(to)?)
            .subject(format!("[turnpike] {}", alert.subject()))
            .message_id(Some(format!("<{}@{}>", alert.id, self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN)
            .body(alert.text());
        message.map_err(|why| why.to_string())
    }
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|why| format!("{text} is no e-mail address: {why}"))
}

async fn parameters(smtp: &Smtp) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(smtp.host.clone());
    if let Some(path) = &smtp.ca_file {
        let shown = |why: String| format!("alerts.smtp.ca_file {}: {why}", path.display());
        let pem = tokio::fs::read(path).await.map_err(|why| shown(why.to_string()))?;
        let certificate = Certificate::from_pem(&pem).map_err(|why| shown(why.to_string()))?;
        builder = builder.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    }
    builder.build().map_err(|why| chain(&why))
}

/// The error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
