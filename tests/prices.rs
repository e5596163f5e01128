//! Prices as operators and clients meet them: commands, the pricing endpoint, overlay and catalogue of the settings.
//!
//! The arithmetic is tested in `src/knowledge/price`.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::turnpike;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use serde_json::Value;
use std::path::Path;

fn prices(settings: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let settings = settings.to_str().unwrap();
    let output = turnpike(&[&["-c", settings, "prices"], arguments].concat());
    (output.code, output.stdout + &output.stderr)
}

/// A catalogue with one provider.
fn catalogue(models: &[(&str, f64)]) -> String {
    let model = |(id, price): &(&str, f64)| {
        format!(
            r#"{{"id":"{id}","match":{{"equals":"{id}"}},"prices":{{"input_mtok":{price},"output_mtok":1}}}}"#
        )
    };
    let models: Vec<String> = models.iter().map(model).collect();
    format!(r#"[{{"id":"openai","models":[{}]}}]"#, models.join(","))
}

#[test]
fn commands_show_check_and_compare_prices() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let settings = write("turnpike.yaml", "");
    let (code, text) = prices(&settings, &["show", "openai/gpt-4o"]);
    assert!(
        code == Some(0) && text.contains("input_mtok 2.5\n") && text.contains("of the catalogue"),
        "{text}"
    );
    let (code, text) = prices(&settings, &["show", "openai/gpt-5"]);
    assert!(code == Some(0) && text.contains("  service_tier flex:\n    input_mtok 0.625\n"), "{text}");
    let (code, text) = prices(&settings, &["show", "openai/no-such-model"]);
    assert!(code == Some(1) && text.contains("has no price") && text.contains("prices.overlay"), "{text}");
    let (code, text) = prices(&settings, &["show"]);
    assert!(code == Some(0) && text.contains("models 2267"), "{text}");
    let (code, text) = prices(&settings, &["licence"]);
    assert!(code == Some(0) && text.contains("MIT License"), "{text}");

    let overlay = write("prices.yaml", "openai/mine: {input_mtok: 7}\nollama/*: {free: true}\n");
    let (code, text) = prices(&settings, &["check", overlay.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains("an overlay with 2 entries"), "{text}");
    assert!(!text.contains("warning"), "{text}");
    let misspelt = write("misspelt.yaml", "opnai/mine: {input_mtok: 7}\n");
    let (code, text) = prices(&settings, &["check", misspelt.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains("warning") && text.contains("did you mean openai?"), "{text}");
    let broken = write("broken.yaml", "openai/mine: {input_mtok: -7}\n");
    let (code, text) = prices(&settings, &["check", broken.to_str().unwrap()]);
    assert!(code == Some(1) && text.contains("broken.yaml:1:27: openai/mine.input_mtok"), "{text}");
    let next = write("next.json", &catalogue(&[("gpt-4o", 3.0)]));
    let (code, text) = prices(&settings, &["check", next.to_str().unwrap()]);
    assert!(code == Some(1) && text.contains("only 1 models"), "{text}");

    let with = format!("prices: {{overlay: {}, file: {}}}\n", overlay.display(), next.display());
    std::fs::write(&settings, with).unwrap();
    let (code, text) = prices(&settings, &["show", "openai/mine"]);
    assert!(code == Some(0) && text.contains("of the overlay") && text.contains("input_mtok 7\n"), "{text}");
    // Prices in another unit, no JSON, a folder, a file that is too large, and one that is not the one of the settings.
    let thousandfold = write("thousandfold.json", &catalogue(&[("gpt-4o", 3_000.0)]));
    for (file, expected) in [
        (
            thousandfold.clone(),
            "1 of 1 models more than tenfold, such as openai/gpt-4o: input_mtok would go from 3 to 3000",
        ),
        (write("cut.json", "[{\"id\":\"openai\",\"models\":["), "is no JSON"),
        (
            write("wrong.json", &catalogue(&[("gpt-4o", -3.0)])),
            "provider openai: model gpt-4o: input_mtok must be a price",
        ),
        (write("empty.json", "[]"), "has no providers"),
        (folder.path().to_owned(), "directory"),
        (folder.path().join("nothing.json"), "No such file"),
        (write("large.json", &" ".repeat((16 << 20) + 1)), "over 16777216 bytes"),
        (write("zeros.yaml", "\0\0"), "zeros.yaml"),
    ] {
        for command in ["check", "diff"] {
            if (command, file.as_path()) == ("diff", thousandfold.as_path()) {
                continue;
            }
            let (code, text) = prices(&settings, &[command, file.to_str().unwrap()]);
            let expected =
                if command == "diff" && file.ends_with("zeros.yaml") { "is no JSON" } else { expected };
            assert!(code == Some(1) && text.contains(expected), "{command} {}: {text}", file.display());
        }
    }
    let (_, text) = prices(&settings, &["check", next.to_str().unwrap()]);
    let digest = text.trim().rsplit(' ').next().unwrap().to_owned();
    let pinned = |digest: &str| {
        format!("prices: {{overlay: {}, file: {}, sha256: '{digest}'}}\n", overlay.display(), next.display())
    };
    std::fs::write(&settings, pinned(&digest)).unwrap();
    assert_eq!(prices(&settings, &["show", "openai/gpt-4o"]).0, Some(0), "{text}");
    std::fs::write(&settings, pinned(&"0a".repeat(32))).unwrap();
    let (code, text) = prices(&settings, &["show", "openai/gpt-4o"]);
    assert!(code == Some(1) && text.contains(&digest) && text.contains("prices.sha256 wants 0a0a"), "{text}");
    std::fs::write(&settings, pinned(&digest)).unwrap();

    let other = write("other.json", &catalogue(&[("gpt-4o", 4.0), ("new", 1.0)]));
    let (code, text) = prices(&settings, &["diff", other.to_str().unwrap()]);
    assert_eq!((code, text.as_str()), (Some(0), "~ openai/gpt-4o input_mtok 3 -> 4\n+ openai/new\n"));

    // A start finds what is wrong with the overlay, at its key.
    std::fs::write(&settings, format!("prices:\n  overlay: {}\n", broken.display())).unwrap();
    let output = turnpike(&["-c", settings.to_str().unwrap(), "check"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("turnpike.yaml:2:12: prices.overlay: "), "{}", output.stderr);
    assert!(output.stderr.contains("broken.yaml:1:27"), "{}", output.stderr);
}

async fn pricing(port: u16, path: &str) -> (u16, Value) {
    let response = client().get(format!("http://127.0.0.1:{port}{path}")).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn prices_are_shown_without_a_key_at_both_ports_and_follow_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(
        file("prices.yaml"),
        "openai/mine: {input_mtok: 2.5, output_mtok: 10}\nollama/*: {free: true}\n",
    )
    .unwrap();
    let shipped: &[u8] = include_bytes!("../src/knowledge/price/data/genai-prices.json.gz");
    let mut shipped = flate2::read::GzDecoder::new(shipped);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut shipped, &mut text).unwrap();
    std::fs::write(file("data.json"), &text).unwrap();
    let settings =
        format!("{STANDARD}prices: {{overlay: {}, file: {}}}\n", file("prices.yaml"), file("data.json"));
    let gateway = Gateway::start(&settings);
    for port in [gateway.ports.data, gateway.ports.control] {
        for prefix in ["", "/v1"] {
            let (status, body) = pricing(port, &format!("{prefix}/model-configs/pricing/openai/mine")).await;
            assert_eq!(status, 200, "{port}{prefix}: {body}");
            assert_eq!(body["pay_as_you_go"]["request_token"]["price"], 0.00025);
            assert_eq!(body["pay_as_you_go"]["response_token"]["price"], 0.001);
            assert_eq!(body["source"], "overlay");
        }
    }
    let port = gateway.ports.control;
    let (status, body) = pricing(port, "/model-configs/pricing/openai/no-such-model").await;
    assert_eq!((status, body), (404, serde_json::json!({"error": "Model not found"})));
    let (status, body) = pricing(port, "/model-configs/pricing/ollama/llama3").await;
    assert_eq!((status, &body["free"]), (200, &true.into()));
    let (status, body) =
        pricing(port, "/model-configs/pricing/workers-ai/@cf/meta/llama-3.1-8b-instruct-fp8").await;
    assert_eq!((status, &body["source"]), (200, &"catalogue".into()), "a model may have slashes: {body}");

    // The same catalogue as a file replaces that of the binary; one that lost what is in use does not.
    let replaced = "turnpike_prices_refreshes_total{outcome=\"replaced\"}";
    until("the file is in force", async || gateway.metric(replaced).await.filter(|count| *count > 0.0)).await;
    let (_, body) = pricing(port, "/model-configs/pricing/openai/gpt-4o").await;
    assert!(body["price_version"].as_str().unwrap().starts_with("sha256-"), "{body}");
    let info = async || {
        gateway
            .metrics()
            .await
            .contains("turnpike_prices_info{source=\"file\",version=\"sha256-")
            .then_some(())
    };
    until("the metrics show it", info).await;
    std::fs::write(file("data.json"), catalogue(&[("gpt-4o", 1_000.0)])).unwrap();
    gateway.signal("HUP");
    let refused = "turnpike_prices_refreshes_total{outcome=\"refused\"}";
    until("the file is refused", async || gateway.metric(refused).await.filter(|count| *count > 0.0)).await;
    let (_, body) = pricing(port, "/model-configs/pricing/openai/gpt-4o").await;
    assert_eq!(body["pay_as_you_go"]["request_token"]["price"], 0.00025, "the prices in force stay");
}
