//! TLS to a PostgreSQL server: what `sslmode` and `sslrootcert` of the URL accept and refuse.

use super::super::{Kind, Store};
use super::postgres_server::Server;
use super::{Database, put, record};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::os::unix::fs::PermissionsExt as _;

/// An authority of the test.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Has a cluster take connections over the network with TLS alone: certificate and key as PEM.
fn take_tls_alone(server: &Server, certificate: &str, key: &str) {
    let data = server.data();
    for (name, text) in [("server.crt", certificate), ("server.key", key)] {
        let file = data.join(name);
        std::fs::write(&file, text).unwrap();
        // It refuses a key that others can read.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = server.user {
            std::os::unix::fs::chown(&file, Some(user), Some(group)).unwrap();
        }
    }
    for (name, edit) in [
        ("postgresql.conf", &(|text: String| format!("{text}\nssl = on\n")) as &dyn Fn(String) -> String),
        ("pg_hba.conf", &|text: String| text.replace("\nhost ", "\nhostssl ")),
    ] {
        let file = data.join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, edit(text)).unwrap();
    }
}

#[test]
fn a_server_is_reached_with_tls_and_identified_by_its_certificate() {
    let issuer = authority();
    let other = authority();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let prepare = |server: &Server| take_tls_alone(server, &certificate, &key.serialize_pem());
    let Some(server) = Server::start_as(&prepare) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let ca = file("ca.pem", issuer.pem());
    let wrong_ca = file("other.pem", other.pem());
    let url = server.new_database();
    let base = url.split('?').next().unwrap();
    let by_name = base.replace("127.0.0.1", "localhost");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (url, wanted) in [
        (format!("{base}?sslmode=disable"), Some("no encryption")),
        (format!("{base}?sslmode=require"), None),
        (format!("{base}?sslmode=prefer"), None),
        (base.to_owned(), None),
        (format!("{by_name}?sslmode=verify-full&sslrootcert={ca}"), None),
        (format!("{by_name}?sslmode=verify-full&sslrootcert={wrong_ca}"), Some("certificate")),
        // The certificate is for localhost.
        (format!("{base}?sslmode=verify-full&sslrootcert={ca}"), Some("certificate")),
        // The built-in authorities have not signed it.
        (format!("{by_name}?sslmode=verify-full"), Some("certificate")),
    ] {
        let database = Database { folder: tempfile::tempdir().unwrap(), url: Some(url.clone()) };
        runtime.block_on(async {
            let store = Store::open(database.options()).await.unwrap();
            let health = store.health();
            let written = store.commit(vec![put(&record(Kind::Config, None))], vec![]).await;
            match wanted {
                None => assert!(health.available && written.is_ok(), "{url}: {:?} {written:?}", health.why),
                Some(why) => {
                    let found = health.why.unwrap_or_default();
                    assert!(found.contains(why) && written.is_err(), "{url}: {found} {written:?}");
                }
            }
        });
    }
}
