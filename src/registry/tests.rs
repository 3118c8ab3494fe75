#![expect(clippy::disallowed_methods, reason = "tests read and write files")]
//! The client against a registry on the wire, sound and hostile.

mod documents;
mod failures;
mod layers;
mod login;
mod pushed;
mod setup;

use std::time::Duration;

use serde_json::json;

use super::config::ConfigError;
use super::credential::{PullSecret, PullSecretFormat};
use super::limits::RetryPolicy;
use super::*;
use crate::error::{Classify as _, Disposition, chain};
use crate::registry::build::BuiltImage;
use crate::testing::registry::{FakeRegistry, Fault as Broken, Login, install_crypto, layer};

const DEADLINE: Duration = Duration::from_secs(20);

fn options() -> RegistryOptions {
    RegistryOptions {
        platform: Some(Platform::new("linux", "amd64")),
        retry: RetryPolicy {
            first_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
            ..RetryPolicy::default()
        },
        ..RegistryOptions::default()
    }
}

fn client() -> RegistryClient {
    install_crypto();
    RegistryClient::new(options()).unwrap()
}

fn with_login(text: &str) -> RegistryClient {
    let client = client();
    let secret = PullSecret {
        origin: "Secret ns/pull".to_owned(),
        format: PullSecretFormat::DockerConfigJson,
        data: text.as_bytes().to_vec(),
    };
    client.set_credentials(Credentials::parse(&[secret]).unwrap());
    client
}

fn login_for(registry: &FakeRegistry, password: &str) -> RegistryClient {
    let entry = json!({"username": "user", "password": password});
    with_login(&json!({"auths": {registry.authority.as_str(): entry}}).to_string())
}

/// The error's text with what varies from run to run replaced.
fn text(registry: &FakeRegistry, error: &RegistryError) -> String {
    assert_eq!(error.disposition(), Disposition::Retry);
    chain(error).replace(&registry.authority, "HOST")
}

/// The image `a:v1` of the registry.
async fn pulled(client: &RegistryClient, registry: &FakeRegistry) -> Image {
    let reference = registry.reference("a:v1");
    let canonical = client.canonicalize(&reference).await.unwrap();
    client.image(&canonical).await.unwrap()
}

/// All bytes of a layer, and how the transfer ended.
async fn read_layer(
    client: &RegistryClient,
    image: &Image,
    index: usize,
) -> Result<Vec<u8>, RegistryError> {
    let (sender, mut receiver) = mpsc::channel(4);
    let reader = async {
        let mut bytes = Vec::new();
        let mut verified = false;
        while let Some(piece) = receiver.recv().await {
            match piece {
                Piece::Bytes(more) => bytes.extend_from_slice(&more),
                Piece::Verified => verified = true,
            }
        }
        (bytes, verified)
    };
    let writer = async {
        let result = client
            .pull_layer(image, &image.layers[index], &sender)
            .await;
        drop(sender);
        result
    };
    let (result, (bytes, verified)) = timeout(DEADLINE, async { tokio::join!(writer, reader) })
        .await
        .unwrap();
    assert_eq!(result.is_ok(), verified, "{result:?}");
    result.map(|_| bytes)
}
