"""Profiles: precedence, where each value came from, and files that are refused with one message."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccli import paths
from speccli.errors import UsageError
from speccli.profile import Layer, Profile, Sampling, Settings, document, load, method_named, named_file, read
from speccli.profile.engine_arguments import BY_SPECCLI, installed_names, names_in, problem_with

# --- Precedence

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "target": st.sampled_from(["a", "b", "c"]),
    "temperature": st.floats(0, 2),
    "max_tokens": st.integers(1, 1000),
    "enforce_eager": st.booleans(),
    "seed": st.integers(),
    "engine": st.dictionaries(st.sampled_from(["block_size", "load_format", "stream_interval"]), st.integers(0, 9)),
}
SETTINGS = st.fixed_dictionaries({}, optional=VALUES).map(lambda given: Settings(**given))


@given(st.lists(SETTINGS, min_size=1, max_size=5))
def test_the_strongest_layer_that_sets_a_key_wins_and_is_its_source(layers: list[Settings]) -> None:
    named = [Layer(settings, f"layer {index}") for index, settings in enumerate(layers)]
    profile = Profile(Settings(), {}).over(*named)
    for key in VALUES:
        setting = [layer for layer in named if getattr(layer.settings, key) is not None]
        if key != "engine":
            assert getattr(profile.settings, key) == (getattr(setting[0].settings, key) if setting else None)
            assert profile.sources.get(key) == (setting[0].source if setting else None)
    for argument in ("block_size", "load_format", "stream_interval"):
        setting = [layer for layer in named if argument in (layer.settings.engine or {})]
        value = (profile.settings.engine or {}).get(argument)
        assert value == ((setting[0].settings.engine or {})[argument] if setting else None)
        assert profile.sources.get(f"engine.{argument}") == (setting[0].source if setting else None)


@given(st.lists(SETTINGS, min_size=2, max_size=5))
def test_merging_in_two_steps_is_merging_in_one(layers: list[Settings]) -> None:
    named = [Layer(settings, f"layer {index}") for index, settings in enumerate(layers)]
    empty = Profile(Settings(), {})
    assert empty.over(*named) == empty.over(named[0]).over(*named[1:])


def test_typed_beats_environment_beats_file_beats_the_users_settings_beats_the_command(tmp_path: Path) -> None:
    users = paths.config_dir() / "config.yaml"
    users.parent.mkdir(parents=True)
    users.write_text("target: e\nmax_tokens: 4\nseed: 4\ntop_k: 4\n")
    file = tmp_path / "mine.yaml"
    file.write_text("target: d\nmax_tokens: 3\nseed: 3\n")
    environment = {"SPECCLI_TARGET": "b", "SPECCLI_MAX_TOKENS": "2"}
    profile = load(Settings(target="a"), file, environment, Settings(max_num_seqs=5, top_k=5))
    assert [getattr(profile.settings, key) for key in ("target", "max_tokens", "seed", "top_k", "max_num_seqs")] == [
        "a", 2, 3, 4, 5,
    ]  # fmt: skip
    assert profile.sources == {
        "target": "typed",
        "max_tokens": "environment",
        "seed": str(file),
        "top_k": str(users),
        "max_num_seqs": "command",
    }
    assert profile.is_stronger("target", "seed")
    assert not profile.is_stronger("top_k", "seed")


def test_sampling_holds_what_is_set() -> None:
    profile = load(Settings(temperature=0.5, seed=7), None, {})
    assert profile.sampling == Sampling(temperature=0.5, seed=7)
    assert profile.sampling.over(Sampling(seed=1, top_k=3)) == Sampling(temperature=0.5, seed=7, top_k=3)


# --- The environment


def test_the_environment_is_read_in_its_own_spelling() -> None:
    environment = {"SPECCLI_ENFORCE_EAGER": "1", "SPECCLI_TEMPERATURE": "0.5", "SPECCLI_DEBUG": "1", "OTHER": "x"}
    profile = load(Settings(), None, environment)
    assert (profile.settings.enforce_eager, profile.settings.temperature) == (True, 0.5)
    assert set(profile.sources) == {"enforce_eager", "temperature"}


def test_vllms_own_variables_are_settings_and_ours_are_stronger() -> None:
    theirs = {"VLLM_CPU_KVCACHE_SPACE": "3", "VLLM_CPU_OMP_THREADS_BIND": "0-1"}
    assert load(Settings(), None, theirs).settings == Settings(kv_cache_gib=3, threads_bind="0-1")
    assert load(Settings(), None, {**theirs, "SPECCLI_KV_CACHE_GIB": "5"}).settings.kv_cache_gib == 5


@pytest.mark.parametrize(
    ("variable", "value", "message", "hint"),
    [
        ("SPECCLI_TARGE", "x", "unknown key `targe`", "did you mean `target`?"),
        ("SPECCLI_TEMPERATURE", "hot", "`temperature` must be a number, not text", "correct the value"),
        ("SPECCLI_METHOD", "eagle2", "no method is called 'eagle2'", "did you mean `eagle` or `eagle3`?"),
        (
            "SPECCLI_REASONING_PARSER",
            "gptoss",
            "`reasoning_parser` cannot be 'gptoss'",
            "did you mean `openai_gptoss`?",
        ),
        ("SPECCLI_KV_CACHE_GIB", "inf", "`kv_cache_gib` must be a number <= 1048576", "correct the value"),
        ("SPECCLI_REASONING_PARSER", "qwen", "`reasoning_parser` cannot be 'qwen'", "did you mean `qwen3`?"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(Settings(), None, {variable: value})
    assert (caught.value.message, caught.value.hint) == (f"environment variable {variable}: {message}", hint)


def test_an_empty_variable_is_not_set() -> None:
    empty = {"SPECCLI_TARGET": "", "SPECCLI_SEED": "", "SPECCLI_KV_CACHE_GIB": "", "VLLM_CPU_KVCACHE_SPACE": "3"}
    assert load(Settings(), None, empty).settings == Settings(kv_cache_gib=3)


@pytest.mark.parametrize("key", ["target", "speculator", "hardware"])
def test_an_empty_name_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match=f"the command line: `{key}` must be text that is not empty"):
        load(msgspec.structs.replace(Settings(), **{key: ""}), None, {})


def test_a_name_that_is_not_in_utf_8_is_refused() -> None:
    with pytest.raises(UsageError, match="`target` is not in UTF-8: "):
        load(Settings(target="./\udcff"), None, {})


def test_an_option_out_of_its_limits_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        load(Settings(temperature=-1.0), None, {})
    assert caught.value.message == "the command line: `temperature` must be a number >= 0"


# --- Files: one message, the line, the nearest spelling

KNOWN = ", ".join(Settings.__struct_fields__)

WRONG = [
    ("seed: 1\ntempratur: 1\n", "line 2: unknown key `tempratur`", "did you mean `temperature`?"),
    ("xyzzy: 1\n", "line 1: unknown key `xyzzy`", f"known: {KNOWN}"),
    ("\n\ntemperature: hot\n", "line 3: `temperature` must be a number, not text", "correct the value"),
    ("max_tokens: 1.5\n", "line 1: `max_tokens` must be a whole number, not a number", "correct the value"),
    (f"seed: {10**30}\n", "line 1: `seed` must be a whole number <= 9223372036854775807", "correct the value"),
    ("max_num_seqs: 0\n", "line 1: `max_num_seqs` must be a whole number >= 1", "correct the value"),
    ("enforce_eager: perhaps\n", "line 1: `enforce_eager` must be true or false, not text", "correct the value"),
    ("engine: [1]\n", "line 1: `engine` must be a mapping, not a list", "correct the value"),
    ("dtype: bf16\n", "line 1: `dtype` cannot be 'bf16'", "did you mean `bfloat16`?"),
    ("method: eagle2\n", "line 1: no method is called 'eagle2'", "did you mean `eagle` or `eagle3`?"),
    ("seed: 1\n\ttop_k: 2\n", "line 2: a tab, or another character that YAML has no use for", "indent with spaces"),
    ("seed: 1\nseed: 2\n", "line 2: the key `seed` stands twice", "keep one of the two"),
    ("engine: &a\n  x: *a\n", "line 2: an alias leads back to itself", "write the value out"),
    (
        "gpu_memory_utilization: 1e-9\n",
        "line 1: `gpu_memory_utilization` must be a number, not text",
        "YAML takes 1e-9 for text: write 1.0e-9",
    ),
    (
        "temperature: 1.5E1\n",
        "line 1: `temperature` must be a number, not text",
        "YAML takes 1.5E1 for text: write 1.5e+1",
    ),
    ("kv_cache_gib: .inf\n", "line 1: `kv_cache_gib` must be a number <= 1048576", "correct the value"),
    ("kv_cache_dtype: fp9\n", "line 1: `kv_cache_dtype` cannot be 'fp9'", "did you mean `fp8`?"),
    ("target: ''\n", "line 1: `target` must be text that is not empty", "correct the value"),
    ("engine:\n  block_size: abc\n", "line 2: `block_size` must be a whole number >= 1", "correct the value"),
    ("engine: {block_size: -16}\n", "line 1: `block_size` must be a whole number >= 1", "correct the value"),
    (
        "engine: {max_num_batched_tokens: [1]}\n",
        "line 1: `max_num_batched_tokens` must be a whole number >= 1",
        "correct the value",
    ),
    ("on: 1\n", "line 1: YAML does not take this key for text", "put the key in quotes"),
    ("? [a]\n: 1\n", "line 1: YAML does not take this key for text", "put the key in quotes"),
]


@pytest.mark.parametrize(("text", "message", "hint"), WRONG)
def test_a_wrong_file_is_refused_with_the_line(text: str, message: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(Settings(), file, {})
    assert (caught.value.message, caught.value.hint) == (f"{file}, {message}", hint)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n", "mine.yaml is not a mapping of keys to values"),
        (b"a: [1\n", "mine.yaml, line 2 is not YAML: did not find expected ',' or ']'"),
        (b"a: 1\n---\nb: 2\n", "mine.yaml, line 2 is not YAML: but found another document"),
        (b"a: !!python/object:os.system 1\n", "mine.yaml, line 1 is not YAML: could not determine a constructor"),
        (b"\xff\xff", "mine.yaml is not YAML: unacceptable character"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        document.parse(content, "mine.yaml")
    assert caught.value.message.startswith(message)


def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(UsageError, match="unfolds to more than 100000 values"):
        document.parse("\n".join(lines).encode(), "mine.yaml")


def test_aliases_and_merges_that_end_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("engine: {compilation_config: &it {level: 1}, kernel_config: {<<: *it, other: 2}}\n")
    assert load(Settings(), file, {}).settings.engine == {
        "compilation_config": {"level": 1},
        "kernel_config": {"level": 1, "other": 2},
    }


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("# nothing yet\n")
    assert read(file, Settings) == Settings()


# --- The file of --profile


def test_profile_takes_a_name_from_the_users_folder() -> None:
    file = paths.config_dir() / "profiles" / "work.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("seed: 3\n")
    profile = load(Settings(), Path("work"), {})
    assert (profile.settings.seed, profile.sources["seed"]) == (3, str(file))


def test_an_unknown_name_gets_the_nearest_one(tmp_path: Path) -> None:
    folder = paths.config_dir() / "profiles"
    folder.mkdir(parents=True)
    (folder / "work.yaml").touch()
    with pytest.raises(UsageError) as caught:
        load(Settings(), Path("wrok"), {})
    assert (caught.value.message, caught.value.hint) == ("no profile is called 'wrok'", "did you mean `work`?")


def test_a_name_too_long_for_a_file_is_unknown() -> None:
    with pytest.raises(UsageError, match="no profile is called 'aaa"):
        named_file(Path("a" * 300))


def test_an_editors_lock_and_a_folder_are_no_profiles(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".#a.yaml").symlink_to("me@host.1")
    (tmp_path / "x.yaml").mkdir()
    assert document.listed(tmp_path) == [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    assert document.listed(tmp_path / "nowhere") == document.listed(tmp_path / "a.yaml") == []


def test_a_folder_that_may_not_be_searched_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UsageError, match=f"cannot read {tmp_path}: Permission denied"):
        document.listed(tmp_path)


@pytest.mark.parametrize("is_folder", [True, False])
def test_settings_of_the_users_that_cannot_be_read_are_not_passed_over(is_folder: bool) -> None:
    users = paths.config_dir() / "config.yaml"
    users.parent.mkdir(parents=True)
    if is_folder:
        users.mkdir()
    else:
        users.symlink_to("nowhere")
    with pytest.raises(UsageError, match=f"cannot read {users}: ") as caught:
        load(Settings(), None, {})
    assert caught.value.hint == "let it be read, or set XDG_CONFIG_HOME to another folder"


def test_without_a_config_folder_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    assert load(Settings(), None, {}).settings == Settings()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(Settings(), tmp_path / "nowhere.yaml", {})
    assert caught.value.message == f"cannot read {tmp_path / 'nowhere.yaml'}: No such file or directory"


# --- vLLM's engine arguments


def test_names_are_the_annotated_fields_of_engine_args() -> None:
    source = "class Other:\n    x: int\nclass EngineArgs:\n    model: str = 'm'\n    _hidden: int = 1\n    def f(self): ...\n"
    assert names_in(source) == {"model"}


def test_the_installed_vllm_has_the_arguments_that_speccli_names_itself() -> None:
    known = installed_names()
    assert known is not None
    assert set(BY_SPECCLI) - known == set()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("block_size", None),
        ("block-size", ("vLLM has no engine argument `block-size`", "did you mean `block_size`?")),
        ("block_sise", ("vLLM has no engine argument `block_sise`", "did you mean `block_size`?")),
        ("xyzzy", ("vLLM has no engine argument `xyzzy`", "`vllm serve --help=all` lists them; write _ for -")),
        (
            "max_model_len",
            (
                "`max_model_len` is not for `engine`: speccli gives it to vLLM itself",
                "write `max_model_len` without `engine`",
            ),
        ),
    ],
)
def test_engine_arguments_are_compared_with_vllms_own(name: str, problem: tuple[str, str] | None) -> None:
    assert problem_with(name, {"block_size", "max_model_len"}) == problem


def test_without_vllm_only_speccllis_own_names_are_refused() -> None:
    assert problem_with("anything", None) is None
    assert problem_with("model", None) is not None


def test_a_wrong_engine_argument_in_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("engine:\n  block_size: 16\n  enable_prefix_cashing: true\n")
    with pytest.raises(UsageError) as caught:
        load(Settings(), file, {})
    assert caught.value.message == f"{file}, line 3: vLLM has no engine argument `enable_prefix_cashing`"
    assert caught.value.hint == "did you mean `enable_prefix_caching`?"


# --- Methods


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("eagel3", "did you mean `eagle3` or `eagle`?"),
        ("qwen3_5_mtp", "write `mtp`: vLLM finds the model's own kind"),
        ("pard", "PARD runs as `draft_model` with parallel_drafting"),
    ],
)
def test_an_unknown_method_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        method_named(text)
    assert (caught.value.message, caught.value.hint) == (f"no method is called {text!r}", hint)


def test_a_method_may_be_written_in_capitals() -> None:
    assert (method_named("NGRAM"), method_named("Eagle3")) == ("ngram", "eagle3")


def test_the_mlp_speculator_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="method mlp_speculator cannot run: vLLM"):
        method_named("mlp_speculator")
