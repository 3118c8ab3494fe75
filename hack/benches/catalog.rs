//! A catalog's way from its layer to a client: unpack, publish, read, serve; time, memory, and the bytes of idle connections.

#![expect(
    clippy::cast_precision_loss,
    clippy::format_collect,
    clippy::panic,
    reason = "figures are rounded, and a bench that cannot go on ends"
)]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use criterion::Criterion;
use oxolm::oci::digest::Digest;
use oxolm::resolve::{Availability, Catalog, Content, Query, resolve};
use oxolm::serve::{self, Served};
use oxolm::store::catalog::{CatalogStore, Encoding, StoredCatalog};
use oxolm::store::limits::Limits;
use oxolm::store::{Added, CONFIGS_LABEL, ContentStore, UnpackedImage, Wanted};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::figure;
use crate::support::{self, MIB};

/// CPU time of the reference for the real catalog as YAML and as JSON lines, in milliseconds.
const REFERENCE_YAML: f64 = 720.0;
const REFERENCE_JSONL: f64 = 190.0;
/// The address that a process asks which then only holds its connections open.
const HELD_URL: &str = "OXOLM_BENCH_HELD_URL";
const HELD_CONNECTIONS: usize = 1000;

pub(crate) fn catalog(criterion: &mut Criterion) {
    _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(url) = std::env::var_os(HELD_URL) {
        return hold_connections(&url.to_string_lossy());
    }
    // First: what is freed later would hide what connections take.
    held(&Served::default(), "", "1000 idle connections", Some(20.0));
    slow();
    let Some(folder) = support::real_catalog() else {
        return;
    };
    let yaml = tar_of(&files_below(folder.path()));
    let house = House::new();
    let (stored, cpu) = house.publish_often("yaml", yaml.as_slice());
    let goal = Some(REFERENCE_YAML / 2.0);
    figure::figure("unpack and index 15 MB of YAML, CPU", cpu, "ms", goal);
    let jsonl = all(&stored);
    let of_copies = copies(&jsonl);
    let jsonl = tar_of(&BTreeMap::from([("catalog.jsonl".to_owned(), jsonl)]));
    let (_, cpu) = house.publish_often("jsonl", jsonl.as_slice());
    let goal = Some(REFERENCE_JSONL / 2.0);
    let name = "unpack and index 13 MB of JSON lines, CPU";
    figure::figure(name, cpu, "ms", goal);
    let name = format!("{name}, without the copies");
    figure::figure(&name, cpu - of_copies, "ms", goal);
    criterion.bench_function("catalog: unpack and index 13 MB of JSON lines", |bencher| {
        let mut round = 0;
        bencher.iter(|| {
            round += 1;
            house.publish(&format!("round {round}"), jsonl.as_slice())
        });
    });
    resolution(&stored);
    served(&Arc::new(stored));
    restart();
    large();
}

/// A store of its own.
struct House {
    directory: tempfile::TempDir,
    content: ContentStore,
    catalogs: CatalogStore,
}

impl House {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        Self::at(directory)
    }

    fn at(directory: tempfile::TempDir) -> Self {
        let content = ContentStore::open(directory.path()).expect("the store can be opened");
        let catalogs = CatalogStore::new(content.clone()).expect("the store can be opened");
        Self {
            directory,
            content,
            catalogs,
        }
    }

    /// Unpacks the layer and publishes what is in it; the CPU time in milliseconds.
    fn publish(&self, name: &str, layer: impl Read) -> (StoredCatalog, f64) {
        let before = figure::cpu();
        let image = self.unpack(name, layer);
        let stored = self.catalogs.publish(&image).expect("the catalog is sound");
        let took = figure::milliseconds(figure::cpu().saturating_sub(before));
        let digest = image.digest.clone();
        drop(image);
        self.content
            .discard(&digest)
            .expect("the image can be removed");
        (stored, took)
    }

    /// Publishes it five times; the median of the CPU times.
    fn publish_often(&self, name: &str, layer: &[u8]) -> (StoredCatalog, f64) {
        let publish = |round| self.publish(&format!("{name} {round}"), layer);
        let mut all: Vec<_> = (0..5).map(publish).collect();
        all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        all.swap_remove(2)
    }

    fn unpack(&self, name: &str, layer: impl Read) -> UnpackedImage {
        let labels = BTreeMap::from([(CONFIGS_LABEL.to_owned(), "/configs".to_owned())]);
        let wanted = Wanted::of(&labels).expect("the label is sound");
        let digest = Digest::of(name.as_bytes());
        let limits = Limits::default();
        match self
            .content
            .add(&digest, &labels, &wanted, &limits, [layer])
        {
            Ok(Added::Image(image)) => image,
            other => panic!("cannot unpack: {other:?}"),
        }
    }
}

/// The files below `root` by path.
fn files_below(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).expect("the directory can be listed") {
            let path = entry.expect("the directory can be listed").path();
            if path.is_dir() {
                ahead.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it lies below the root");
                let bytes = fs::read(&path).expect("the file can be read");
                found.insert(name.display().to_string(), bytes);
            }
        }
    }
    found
}

fn tar_of(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(encoder);
    for (name, bytes) in files {
        append(&mut archive, name, bytes).expect("memory takes it");
    }
    let encoder = archive.into_inner().expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, format!("configs/{name}"), bytes)
}

fn all(stored: &StoredCatalog) -> Vec<u8> {
    let size = usize::try_from(stored.size_bytes(Encoding::Identity)).expect("it fits");
    let mut bytes = vec![0; size];
    stored
        .read_at(Encoding::Identity, &mut bytes, 0)
        .expect("the catalog can be read");
    bytes
}

/// The CPU time that publishing spends on the compressed copies, which the reference does not make: it compresses each answer.
/// Other levels are there to compare.
fn copies(blobs: &[u8]) -> f64 {
    let copy = |name: &str, compress: &dyn Fn(&mut Counted)| {
        let mut counted = Counted(0);
        let before = figure::cpu();
        compress(&mut counted);
        let used = figure::milliseconds(figure::cpu().saturating_sub(before));
        let size = counted.0 as f64 / MIB;
        let name = format!("the copy in {name} ({size:.2} MiB), CPU");
        figure::figure(&name, used, "ms", None);
        used
    };
    let gzip = [2, 1, 3].map(|level| {
        copy(&format!("gzip level {level}"), &|counted| {
            let mut gzip = flate2::write::GzEncoder::new(counted, flate2::Compression::new(level));
            for piece in blobs.chunks(16 << 10) {
                gzip.write_all(piece).expect("nothing fails");
            }
            gzip.finish().expect("nothing fails");
        })
    });
    let zstd = [1, -1].map(|level| {
        copy(&format!("zstd level {level}"), &|counted| {
            let mut zstd = zstd::Encoder::new(counted, level).expect("there is memory");
            for piece in blobs.chunks(16 << 10) {
                zstd.write_all(piece).expect("nothing fails");
            }
            zstd.finish().expect("nothing fails");
        })
    });
    gzip[0] + zstd[0]
}

/// Counts bytes.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The package whose line is longest to read.
fn largest(stored: &StoredCatalog) -> String {
    let bundles = |name: &&str| {
        let package = stored.package(name);
        package.ok().flatten().map_or(0, |one| one.bundles.len())
    };
    let names = stored.package_names().max_by_key(bundles);
    names.expect("the catalog has packages").to_owned()
}

/// A package is read from the disk, and one of its bundles chosen.
fn resolution(stored: &StoredCatalog) {
    let name = largest(stored);
    let query = Query {
        package: name.clone(),
        ..Query::default()
    };
    let before = figure::cpu();
    let mut times: Vec<_> = (0..2000_u32)
        .map(|_| {
            let started = Instant::now();
            let package = stored.package(&name).ok().flatten();
            let package = package.expect("the package is there");
            let catalogs = [Catalog {
                name: "real".to_owned(),
                labels: BTreeMap::new(),
                priority: 0,
                availability: Availability::Available,
                serving: true,
                content: Content::Package(&package),
            }];
            black_box(resolve(&query, &catalogs));
            started.elapsed()
        })
        .collect();
    let used = figure::cpu().saturating_sub(before) / 2000;
    let what = format!("resolve {name} from the published store");
    figure::figure(
        &format!("{what}, CPU"),
        figure::milliseconds(used),
        "ms",
        None,
    );
    let p99 = support::percentile(&mut times, 99);
    figure::figure(&format!("{what} p99"), p99, "ms", Some(2.0));
}

fn served(stored: &Arc<StoredCatalog>) {
    let runtime = Runtime::new().expect("there are threads");
    let served = Served::default();
    served.set("real", stored.clone());
    let stop = CancellationToken::new();
    let address = runtime.block_on(start(served, &stop));
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .expect("there is a client");
    let get = async |url: &str| {
        let started = Instant::now();
        let response = client.get(url).send().await.expect("it answers");
        let bytes = response.bytes().await.expect("it answers").len();
        (started.elapsed(), bytes)
    };
    let base = format!("https://{address}/catalogs/real/api/v1");
    let metas = format!(
        "{base}/metas?schema=olm.channel&package={}",
        largest(stored)
    );
    let mut times: Vec<_> = (0..1000).map(|_| runtime.block_on(get(&metas)).0).collect();
    let p99 = support::percentile(&mut times, 99);
    figure::figure(
        "/metas?schema=olm.channel&package= p99",
        p99,
        "ms",
        Some(2.0),
    );
    let rate = |url: &str| {
        let rates = (0..20).map(|_| {
            let (time, bytes) = runtime.block_on(get(url));
            bytes as f64 / MIB / time.as_secs_f64()
        });
        rates.fold(0.0, f64::max)
    };
    let ours = rate(&format!("{base}/all"));
    let bare = rate(&format!(
        "https://{}/",
        runtime.block_on(bare_sender(Arc::new(all(stored))))
    ));
    figure::figure("a bare TLS sender", bare, "MiB/s", None);
    figure::figure("/all", ours, "MiB/s", None);
    figure::figure(
        "a bare TLS sender by /all",
        bare / ours,
        "times",
        Some(1.25),
    );
    stop.cancel();
}

/// The content server, on a port of its own.
async fn start(served: Served, stop: &CancellationToken) -> SocketAddr {
    let certificate = serve::Certificate::SelfMade {
        names: vec!["127.0.0.1".to_owned()],
    };
    let tls = serve::Tls::load(certificate, serve::Profile::default()).expect("ring works");
    let address = "127.0.0.1:0".parse().expect("it is an address");
    let options = serve::Options::of_content(address, tls);
    let router = serve::router(served, serve::Metrics::default());
    let started = serve::start(options, router, stop.clone()).await;
    started.expect("the server starts").0
}

/// Sends the same bytes over TLS to whoever asks, as fast as rustls can.
async fn bare_sender(content: Arc<Vec<u8>>) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("ring works");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("the pair fits");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, content) = (acceptor.clone(), content.clone());
            tokio::spawn(async move {
                use tokio::io::AsyncReadExt as _;
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                        content.len()
                    );
                    let sent = async {
                        stream.write_all(head.as_bytes()).await?;
                        for piece in content.chunks(256 << 10) {
                            stream.write_all(piece).await?;
                        }
                        stream.flush().await
                    };
                    if sent.await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// What clients cost that begin to read a catalog and then take nothing.
fn slow() {
    let house = House::new();
    let (stored, _) = house.publish("slow", generated(30));
    let served = Served::default();
    served.set("slow", Arc::new(stored));
    let all = "catalogs/slow/api/v1/all";
    held(&served, all, "1000 clients that take nothing", None);
}

/// What connections cost that ask for `path` and are then held open; the other ends are in a process of their own.
fn held(served: &Served, path: &str, name: &str, goal: Option<f64>) {
    let runtime = Runtime::new().expect("there are threads");
    let stop = CancellationToken::new();
    let address = runtime.block_on(start(served.clone(), &stop));
    let before = support::memory("VmRSS");
    let Ok(executable) = std::env::current_exe() else {
        return;
    };
    let child = Command::new(executable)
        .arg("catalog")
        .env(HELD_URL, format!("https://{address}/{path}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("the bench runs itself");
    let mut ready = [0; 1];
    let mut text = Vec::new();
    let mut output = child.stdout.take().expect("it is piped");
    // It says so after its calibration.
    while !text.ends_with(b"connected\n") && output.read(&mut ready).is_ok_and(|read| read > 0) {
        text.extend_from_slice(&ready);
    }
    let grown = support::memory("VmRSS") - before;
    drop(child.stdin.take());
    _ = child.wait();
    stop.cancel();
    figure::figure(name, grown / MIB, "MiB", goal);
}

fn hold_connections(url: &str) {
    let runtime = Runtime::new().expect("there are threads");
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .expect("there is a client");
    let held: Vec<_> = runtime.block_on(futures::future::join_all(
        (0..HELD_CONNECTIONS).map(|_| client.get(url).send()),
    ));
    let count = held.iter().filter(|one| one.is_ok()).count();
    assert_eq!(count, HELD_CONNECTIONS, "connections were refused");
    println!("connected");
    let mut rest = Vec::new();
    _ = io::stdin().read_to_end(&mut rest);
    drop(held);
}

/// A catalog of `megabytes`, made while it is read: files of three documents of a megabyte.
fn generated(megabytes: usize) -> impl Read {
    let (reader, writer) = io::pipe().expect("there are pipes");
    std::thread::spawn(move || {
        let mut archive = tar::Builder::new(writer);
        for file in 0..megabytes / 3 {
            let package = format!("package-{}", file / 10);
            let mut bytes = Vec::with_capacity(3 << 20);
            for document in 0..3 {
                let name = format!("{package}.v{}.{document}.0", file % 10);
                // As compressible as real manifests are.
                let text: String = (0..20_000_u32)
                    .map(|line| {
                        format!(
                            "line {line} of {name}, {:08x}. ",
                            line.wrapping_mul(2_654_435_761)
                        )
                    })
                    .collect();
                let document = format!(
                    "{{\"schema\":\"olm.bundle\",\"package\":\"{package}\",\"name\":\"{name}\",\"image\":\"example.com/i:1\",\
                     \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"{package}\",\
                     \"version\":\"{}.{document}.0\"}}}},{{\"type\":\"x\",\"value\":\"{text}\"}}]}}\n",
                    file % 10
                );
                bytes.extend_from_slice(document.as_bytes());
            }
            if append(&mut archive, &format!("{file}.json"), &bytes).is_err() {
                return;
            }
        }
        // Whoever reads may have had enough.
        _ = archive.finish();
    });
    reader
}

/// The peak of memory for a catalog of one gigabyte, above what the process had before.
fn large() {
    let house = House::new();
    let started = Instant::now();
    let ((stored, _), peak) = support::peak(|| house.publish("large", generated(1000)));
    let took = started.elapsed();
    let size = stored.size_bytes(Encoding::Identity) as f64;
    figure::figure("generated catalog", size / MIB, "MiB", None);
    figure::figure("unpack and index it", took.as_secs_f64(), "s", None);
    figure::figure("its peak memory over idle", peak, "MiB", Some(40.0));
}

/// From a start with three catalogs on disk until all can be served: everything is verified.
fn restart() {
    let house = House::new();
    let names = ["one", "two", "three"];
    for name in names {
        house.publish(name, generated(60));
    }
    let directory = house.directory;
    let started = Instant::now();
    let again = House::at(directory);
    let opened = std::thread::scope(|scope| {
        let tasks = names.map(|name| {
            let catalogs = again.catalogs.clone();
            scope.spawn(move || catalogs.open(&Digest::of(name.as_bytes())))
        });
        tasks.map(|task| task.join().expect("it ends"))
    });
    assert!(opened.iter().all(|one| matches!(one, Ok(Some(_)))));
    let took = figure::milliseconds(started.elapsed());
    figure::figure(
        "restart with three catalogs of 60 MB",
        took,
        "ms",
        Some(1000.0),
    );
}
