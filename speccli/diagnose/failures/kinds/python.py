"""The Python environment: packages that are missing, or do not go together."""

from __future__ import annotations

from speccli.diagnose.failures.kind import GENERAL, Kind

KINDS = (
    Kind(
        id="crash.torchvision",
        title="torchvision of another build",
        says=(
            ("operator torchvision::", "does not exist"),
            ("torchvision", "undefined symbol"),
            ("partially initialized module 'torchvision'",),
            ("torchcodec", "could not load"),
            ("libtorchcodec", "error"),
            ("libtorchaudio", "cannot"),
        ),
        cause="torchvision, torchaudio or torchcodec was built for another torch",
        fix="pip uninstall -y torchvision torchaudio torchcodec (text models need none of them)",
    ),
    Kind(
        id="crash.binary",
        title="builds that do not go together",
        says=(
            "undefined symbol",
            ("libcudart.so", "cannot open shared object"),
            ("libnccl.so", "cannot open shared object"),
            ("cannot open shared object file", "importerror"),
            ("glibcxx_", "not found"),
            ("glibc_", "not found"),
            ("a module that was compiled using numpy 1.x",),
            ("no module named 'vllm._c'", "modulenotfounderror"),
        ),
        figures=(r"(?P<library_name>lib[\w.+-]{1,60}\.so[\d.]*)",),
        cause="a compiled package was built against another torch, CUDA or system library than the one installed",
        fix="a fresh environment with pip install 'speccli[cuda]' (or [cpu]) alone; speccli doctor names what does not fit",
        rank=GENERAL,
    ),
    Kind(
        id="crash.no-vllm",
        title="vLLM is not installed here",
        says=("no module named 'vllm'", ("vllm: command not found",), ("vllm: not found",)),
        cause="the Python that ran has no vLLM; another environment may",
        fix="pip install 'speccli[cuda]' or 'speccli[cpu]'; speccli doctor says which Python and which packages it sees",
    ),
    Kind(
        id="crash.import",
        title="a package is missing or of another version",
        says=(
            "modulenotfounderror",
            ("importerror", "cannot import name"),
            ("importerror", "requires"),
            "packagenotfounderror",
            "versionconflict",
        ),
        unless=("arctic_inference", "'triton'"),
        figures=(
            r"No module named '(?P<package_name>[\w.]{1,80})'",
            r"cannot import name '(?P<package_name>\w{1,80})'",
        ),
        cause="an import failed: the package is not there, or its version is another than vLLM's metadata asks for",
        fix="speccli doctor compares the installed versions with what vLLM asks for",
        rank=GENERAL,
    ),
)
