//! Which images a bundle names, and what for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::bundle::RegistryV1;

/// The images of the bundle, each with what it is used for: `container NAME of deployment NAME`, or the name under
/// which the CSV lists it. Environment variables that name images are those of the CSV's list, too.
pub fn images(bundle: &RegistryV1) -> BTreeMap<String, BTreeSet<String>> {
    let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for deployment in bundle.csv.deployments() {
        for (container, image) in containers(&deployment.spec) {
            let purpose = format!("container {container} of deployment {}", deployment.name);
            images.entry(image).or_default().insert(purpose);
        }
    }
    for related in &bundle.csv.spec.related_images {
        if !related.image.is_empty() {
            let purposes = images.entry(related.image.clone()).or_default();
            purposes.insert(format!("related image {}", related.name));
        }
    }
    images
}

/// Names and images of the containers of a Deployment's spec.
fn containers(spec: &Map<String, Value>) -> Vec<(String, String)> {
    let pod = spec
        .get("template")
        .and_then(|template| template.get("spec"));
    ["initContainers", "containers"]
        .iter()
        .filter_map(|list| pod?.get(list)?.as_array())
        .flatten()
        .filter_map(|container| {
            let text = |member| container.get(member).and_then(Value::as_str);
            let image = text("image").filter(|image| !image.is_empty())?;
            Some((
                text("name").unwrap_or_default().to_owned(),
                image.to_owned(),
            ))
        })
        .collect()
}
