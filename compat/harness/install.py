"""Installs the clients of the suites: Kafka's jars (Maven Central), Python clients (PyPI) and a few Debian packages.

Everything is cached in one directory and installed once. Only this module downloads anything.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
FLINK_VERSION = "2.2.1"
FLINK_CONNECTORS = [("flink-connector-base", FLINK_VERSION), ("flink-connector-kafka", "5.0.0-2.2")]
PYTHON_CLIENTS = ["confluent-kafka==2.16.1", "kafka-python==3.0.12", "aiokafka==0.14.0", "prometheus-client==0.26.0"]
# The last but some that repeats its nonce in SCRAM's final message.
OLD_LIBRDKAFKA = ["confluent-kafka==2.3.0"]
BROWSER_CLIENTS = ["playwright==1.65.2", "axe-playwright-python==0.1.8", PYTHON_CLIENTS[0]]

MANIFEST_VALIDATOR = ["kubernetes-validate==1.37.0"]

COMPAT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = COMPAT.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "parshall-compat"


def note(text):
    print(f"# {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _once(directory):
    """Yields True when `directory` is to be filled by the caller; it counts as filled when the caller returns."""
    done = directory / ".complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{directory.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            yield False
            return
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        yield True
        done.touch()


def _digest(contents):
    """What tells directories of one kind apart."""
    return hashlib.sha256(repr(contents).encode()).hexdigest()[:16]


def _run(command, **options):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def apt(program, package):
    """The path of `program`, installed from Debian's `package` where that is possible; None where it is not."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found or os.geteuid() != 0 or not shutil.which("apt-get"):
        return found
    note(f"apt-get install {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": environment,
    }
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
    if subprocess.run(install, **quiet).returncode:
        subprocess.run(["apt-get", "update", "-q"], **quiet)
        subprocess.run(install, **quiet)
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def require(program, package):
    """The path of `program`, without which nothing goes on."""
    found = apt(program, package)
    if not found:
        raise SystemExit(f"{program} is needed (Debian package {package}) and could not be installed")
    return found


def browser():
    """Chromium's path."""
    return require("chromium", "chromium")


def _resolve(directory, artifacts, *options):
    """Fills a directory with jars from Maven Central."""
    note(f"resolving {', '.join(name for _, name, _ in artifacts)} from Maven Central")
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
        for g, a, v in artifacts
    )
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>parshall</groupId><artifactId>compat</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
        )
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}", *options]
        _run([require("mvn", "maven"), "-B", "-q", "-f", f"{work}/pom.xml", *copy])


def kafka_libs():
    """The directory with Apache Kafka's server, tools, client and Streams jars. Its stores are in memory: no RocksDB."""
    artifacts = [("org.apache.kafka", name, KAFKA_VERSION) for name in ("kafka_2.13", "kafka-tools", "kafka-streams")]
    artifacts += [("org.apache.logging.log4j", name, LOG4J_VERSION) for name in ("log4j-slf4j-impl", "log4j-core")]
    directory = CACHE / f"kafka-{KAFKA_VERSION}-{_digest(artifacts)}"
    with _once(directory) as fill:
        if fill:
            require("java", "default-jdk-headless")
            _resolve(directory, artifacts, "-DexcludeArtifactIds=rocksdbjni")
    return directory


def connect_plugins():
    """The directory with the connectors for files; Kafka Connect itself is among Kafka's jars."""
    directory = CACHE / f"connect-{KAFKA_VERSION}"
    with _once(directory) as fill:
        if fill:
            _resolve(directory, [("org.apache.kafka", "connect-file", KAFKA_VERSION)], "-DexcludeTransitive=true")
    return directory


def flink():
    """The class path with Apache Flink, its Kafka connector and compat/flink."""
    artifacts = [("org.apache.flink", name, FLINK_VERSION) for name in ("flink-clients", "flink-streaming-java")]
    artifacts += [("org.apache.flink", name, version) for name, version in FLINK_CONNECTORS]
    libraries = CACHE / f"flink-{FLINK_VERSION}-{_digest(artifacts)}"
    with _once(libraries) as fill:
        if fill:
            require("java", "default-jdk-headless")
            _resolve(libraries, artifacts)
    sources = sorted((COMPAT / "flink").glob("*.java"))
    classes = CACHE / f"flink-classes-{_digest([path.read_bytes() for path in sources])}"
    with _once(classes) as fill:
        if fill:
            javac = require("javac", "default-jdk-headless")
            _run([javac, "-nowarn", "-d", classes, "-cp", f"{libraries}/*", *sources])
    return f"{classes}:{libraries}/*"


def java_classes():
    """The directory with compat/java compiled against Kafka's jars."""
    sources = sorted((COMPAT / "java").glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    directory = CACHE / f"classes-{digest}"
    with _once(directory) as fill:
        if fill:
            for old in CACHE.glob("classes-*"):
                if old.is_dir() and old != directory:
                    shutil.rmtree(old, ignore_errors=True)
            javac = require("javac", "default-jdk-headless")
            _run([javac, "-nowarn", "-d", directory, "-cp", f"{kafka_libs()}/*", *sources])
    return directory


def go_program(name):
    """The program of compat/go, built against the modules that its go.sum names; None where there is no Go."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        return None
    sources = [COMPAT / "go/go.mod", COMPAT / "go/go.sum", *sorted((COMPAT / "go" / name).glob("*.go"))]
    directory = CACHE / f"go-{name}-{_digest([path.read_bytes() for path in sources])}"
    with _once(directory) as fill:
        if fill:
            note(f"building compat/go/{name}")
            _run([go, "build", "-o", directory / name, f"./{name}"], cwd=COMPAT / "go")
    return directory / name


def _environment(name, packages):
    directory = CACHE / f"{name}-{_digest((packages, sys.version))}"
    with _once(directory) as fill:
        if fill:
            note(f"installing {', '.join(packages)} from PyPI")
            venv.create(directory, with_pip=True, clear=True)
            _run([directory / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages])
    return directory / "bin/python"


def python():
    """The interpreter of a virtual environment that has the Python clients."""
    return _environment("python", PYTHON_CLIENTS)


def old_librdkafka_python():
    """The interpreter of a virtual environment with an old librdkafka."""
    return _environment("old-librdkafka", OLD_LIBRDKAFKA)


def browser_python():
    """The interpreter of a virtual environment that drives a browser."""
    return _environment("browser", BROWSER_CLIENTS)


def manifests_python():
    """The interpreter of a virtual environment that knows the schemas of Kubernetes."""
    return _environment("manifests", MANIFEST_VALIDATOR)


def parshall():
    """The release binary; PARSHALL names another one."""
    path = pathlib.Path(os.environ.get("PARSHALL") or PROJECT / "target/release/parshall")
    if not path.exists():
        raise SystemExit(f"{path} is missing: cargo build --release")
    return path
