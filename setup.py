"""Distribution `gui-rl`: what is installed, and why each direct dependency is there.

Direct dependencies are pinned exactly here; constraints.txt pins everything that they bring along.
"""

from setuptools import find_packages, setup

POLICY = [
    "jax==0.10.2",  # arrays, differentiation, compilation and sharding of the policy
    "flax==0.12.8",  # flax.struct: dataclasses that are pytrees (state, cache, batch)
    "optax==0.2.8",  # optimizers (AdamW, Muon) and schedules
    "orbax-checkpoint==0.12.8",  # checkpoints of a run: atomic, sharded
    "grain==0.2.18",  # deterministic, resumable input pipeline
    "absl-py==2.5.1",  # the flags that grain's worker processes read
    "PyYAML==6.0.4",  # task graphs and sweeps as files
    "tensorflow-datasets==4.9.10",  # the stored form of trajectories; works without TensorFlow
    "array_record==0.8.6",  # the files behind those datasets: random access
    "transformers==5.24.0",  # Qwen's configuration and image processor, the reference for parity
    "tokenizers==0.23.3",  # byte-level BPE in Hugging Face's tokenizer.json form
    "safetensors==0.8.0",  # weights in and out; the form of the shipped base
    "numpy==2.4.6",  # index arrays made on the host
    "scipy==1.17.1",  # normal quantiles and binomial coefficients (intervals, swap weights)
    "pillow==13.0.0",  # screenshots: decode, resize
    "jaxtyping==0.3.11",  # shapes in signatures
    "pydantic==2.14.4",  # typed messages of the environment protocol
    "aiohttp==3.14.5",  # client of the environment servers; its pool stays cheap with many connections
    "tyro==1.0.17",  # command line from frozen dataclasses; unknown options are errors
    "rich==15.0.0",  # progress bars and tables in the terminal
    "wandb==0.31.0",  # metrics, offline unless asked otherwise
    "psutil==7.2.2",  # memory of a run and of its environment server
    "markdown-it-py==4.3.0",  # documentation in Markdown, for questions about it
    "matplotlib==3.11.2",  # figures of the experiments
]

DOCS = [
    "mkdocs==1.6.1",  # builds the pages of docs/; strict, so that a dead link is an error
    "mkdocs-material==9.8.2",  # their look and their search, all of it served from the site itself
    "mkdocstrings-python==2.0.11",  # the reference, from docstrings
]

NOTEBOOKS = ["ipykernel==7.4.0"]  # what Jupyter and editors run notebooks/ with

EXTRAS = {
    "env": [
        "fastapi==0.165.0",  # the environment server's routes and OpenAPI page
        "starlette==1.10.0",  # what FastAPI is built on: its exceptions and types, named directly
        "uvicorn==0.54.0",  # serves it
        "uvloop==0.23.0",  # the event loop of the server processes: a step's many small messages cost less
        "multidict==7.2.1",  # headers with several values, in the front of several workers
        "yarl==1.25.1",  # addresses that are passed on as they came
        "playwright==1.65.2",  # drives the system's Chromium
        "prometheus_client==0.26.0",  # GET /metrics
        "wsproto==1.3.2",  # WebSockets for uvicorn (the facade for OpenEnv)
        "mcp==2.3.0",  # official SDK of the Model Context Protocol: a session's tools as an MCP server
        "python-multipart==0.0.34",  # forms with files, as OSWorld's clients send them
        "miniwob==1.1.0",  # the pages of the suite of that name; only its HTML files are read
    ],
    "desktop": [],  # the suites `libreoffice` and `office`: programs of the system alone, see scripts/setup.sh
    "gpu": ["jax[cuda12]==0.10.2"],  # the same jax with its CUDA plugin
    "tpu": ["jax[tpu]==0.10.2"],  # the same jax with libtpu
    "docs": DOCS,
    "notebooks": NOTEBOOKS,
    "dev": [
        *DOCS,  # the pages are built in the tests
        *NOTEBOOKS,  # which run in the tests
        "nbclient==0.11.0",  # runs notebooks without a browser
        "nbformat==5.11.1",  # reads and checks them
        "jupyter_client==8.10.0",  # starts their kernel
        "pytest==9.2.0",  # runs the tests
        "pytest-xdist==3.8.0",  # on two processes
        "httpx==0.28.1",  # asks the environment server without our client
        "httpx2==2.16.2",  # the HTTP client that mcp's own client is given
        "schemathesis==4.32.5",  # fuzzes the environment server by its OpenAPI document
        "hypothesis==6.170.17",  # property tests (coordinate codec, packing)
        "torch==2.13.0",  # the reference implementation in the parity tests; a CPU build is enough
        "dashscope==2.0.2",  # ships Qwen's real vocabulary, which the tokenizer is tested on
        "tiktoken==0.14.0",  # reads that vocabulary: the reference for ours
        "kubernetes-validate==1.37.0",  # Kubernetes' schemas: the manifests in deploy/ are checked without a cluster
        "PyYAML==6.0.4",  # reads them
        "ruff==0.17.6",  # format and lint
        "import-linter==2.17",  # keeps imports pointing one way
    ],
}

setup(
    name="gui-rl",
    version="0.1.0",
    description="Training of vision-language policies that operate phones, desktops and browsers, in JAX",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["gui_rl*", "env_servers*", "experiments*"]),
    package_data={"": [f"**/*.{kind}" for kind in ("html", "css", "js", "json", "png", "yaml", "safetensors")]},
    install_requires=POLICY,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["gui-rl = gui_rl.cli:main"]},
)
