"""The labs and players of the site's pages: they show and answer what the notebook's do.

Sliders are moved on built pages in tests/site; here the data behind them are held against gl.lab.
"""

import html
import io
import itertools
import json
import os
import re
import shutil
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from playwright.sync_api import sync_playwright

import gemmlab as gl
from gemmlab import ladder
from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.ladder import RUNGS
from gemmlab.lessons.warp_specialized.lab import RingPlayer
from gemmlab.notebook.lab import reason_of, refusal
from gemmlab.site import cache, lab_views, labs, player_frames, players
from gemmlab.site.constraint_tables import FAMILY, tables
from gemmlab.site.interactive import Call, Loaded, calls

NAME = "03_shared_memory"
SMALL = {"TILE": 8, "BK": 8, "PAD": 0}
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
if not CHROMIUM and os.environ.get("GEMMLAB_REQUIRE_BROWSER"):
    raise RuntimeError("GEMMLAB_REQUIRE_BROWSER is set, and there is no Chromium.")
in_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium")
by_name = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    """As the site is built: what a GPU here would measure is not on its pages."""
    monkeypatch.setenv("GEMMLAB_DEVICE", "simulator")


def choices(rung):
    """Settings of a rung, legal and not; where it has families, half of them of a family."""
    each = st.fixed_dictionaries({one.name: st.sampled_from(one.legal) for one in rung.parameters})
    if not rung.families:
        every = each
    else:
        of_family = st.builds(lambda a, b: a | b, each, st.sampled_from(rung.families))
        every = st.one_of(each, of_family)
    return every.map(lambda found: {one.name: found[one.name] for one in rung.parameters})


def broken(rung, made, chosen):
    """What a page finds in the tables of a rung, as their docstring has it."""
    family = [chosen[name] for name in made["together"]]
    if made["together"] and family not in made["families"]:
        return made["no_family"]
    legal = {one.name: one.legal for one in rung.parameters}
    for rule in made["rules"]:
        at = 0
        for name in rule["reads"]:
            if name == FAMILY:
                at = at * len(made["families"]) + made["families"].index(family)
            else:
                at = at * len(legal[name]) + legal[name].index(chosen[name])
        ends = itertools.accumulate(times for _, times in rule["cells"])
        answer = next(cell for (cell, _), end in zip(rule["cells"], ends, strict=True) if at < end)
        if rule["answers"][answer]:
            return rule["answers"][answer]
    return ""


@by_name
def test_tables_hold_every_condition(rung):
    made = json.loads(json.dumps(tables(rung)))

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(choices(rung))
    def agree(chosen):
        assert broken(rung, made, chosen) == (rung.broken(chosen) or "")

    agree()


def test_a_condition_that_reads_more_with_some_values_is_asked_for_those_too():
    rung = ladder.find(NAME)

    def late(chosen):
        if chosen["TILE"] == 8 and chosen["BK"] == 64:
            return f"says PAD={chosen['PAD']}" if chosen.get("PAD") else None
        return None

    changed = ladder.Rung(**{**vars(rung), "constraints": (ladder.Constraint("late", late),)})
    (rule,) = tables(changed)["rules"]
    assert set(rule["reads"]) == {"TILE", "BK", "PAD"} and len(rule["answers"]) == 2


# ---- what the script answers ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def page():
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.evaluate("window.gemmlab = {}")
        page.add_script_tag(content=(ROOT / "docs/_static/lab_rules.js").read_text())
        yield page
        chromium.close()


VIEW = {"pictures": ["picture"], "said": [], "lines": {}, "numbers": []}
ASK = """({data, asked}) => {
    const answer = gemmlab.labRules(data);
    return asked.map(([settings, moved]) => answer(settings, moved));
}"""


@in_chromium
@by_name
def test_the_script_answers_as_the_lab_does(rung, page):
    shown = lab_views.rendered(rung)
    data = labs.data_of(rung, {" ".join(map(str, one.values())): VIEW for one in shown})
    names = [one.name for one in rung.parameters]
    tried = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(choices(rung), st.sets(st.sampled_from(names), max_size=2))
    def collect(chosen, moved):
        tried.append((chosen, [name for name in names if name in moved]))

    collect()

    def places(chosen, moved):
        at = [one.legal.index(chosen[one.name]) for one in rung.parameters]
        return at, [names.index(name) for name in moved]

    asked = [places(chosen, moved) for chosen, moved in tried]
    answers = page.evaluate(ASK, {"data": json.loads(json.dumps(data)), "asked": asked})
    for (chosen, moved), answer in zip(tried, answers, strict=True):
        changes = {names[at]: rung.parameters[at].legal[to] for at, to in answer.get("changes", [])}
        if reason := reason_of(rung, chosen):
            wanted = refusal(rung, chosen, moved, reason)
            assert (answer["words"], changes) == (wanted.words, wanted.changes)
            assert answer["use"] == f"Use {ladder.listed(wanted.changes)}"
        elif chosen in shown:
            assert answer["view"]["picture"] == "picture"
        else:
            assert "this page has no picture of them" in answer["words"]
            near = chosen | changes
            assert near == min(shown, key=partial(distance, chosen, moved))


def distance(chosen, moved, other):
    """How far a rendered choice is: what moved comes first, then how many change, and how much."""
    changed = [name for name, value in chosen.items() if other[name] != value]
    steps = (ladder.distance_between(chosen[name], other[name]) for name in changed)
    return len(set(changed) & set(moved)), len(changed), sum(steps)


# ---- what is shown -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def words_of(markup):
    return html.unescape(re.sub("<[^>]*>", "", markup))


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


@pytest.mark.parametrize("name, chosen", [(NAME, SMALL), ("18_persistent", {"CLUSTER": 4})])
def test_a_view_is_the_lab_s(name, chosen, folder):
    lab = gl.lab(name, **chosen)
    view = lab_views.view(name, lab.settings, folder)
    assert words_of(lab.caption.value) == "".join(view["said"])
    (picture,) = view["pictures"]
    kept = (lab_views.shelf_of(name, folder).folder / picture).read_bytes()
    assert np.array_equal(pixels(kept), pixels(lab.picture.value))
    assert words_of(lab.numbers.value) == "".join(map("".join, view["numbers"]))
    source = ladder.find(name).path.read_text().splitlines()
    row_html = re.findall(r"<tr.*?</tr>", lab.lines.value)
    assert len(row_html) == 1 + len(view["lines"]["rows"])
    for row, shown in zip(view["lines"]["rows"], row_html[1:], strict=True):
        if isinstance(row, int):
            assert words_of(shown) == f"… {-row} lines without traffic"
        else:
            line, *costs = row
            cells = "".join(count + words for count, words, _ in costs)
            assert words_of(shown) == f"{line}{cells}{source[line - 1]}"
    assert view["lines"]["caption"] in words_of(lab.lines.value)


def test_a_view_is_drawn_once_and_anew_where_something_changed(folder, monkeypatch):
    first = lab_views.view(NAME, SMALL, folder)
    draws = []
    real = lab_views._drawn
    monkeypatch.setattr(lab_views, "_drawn", lambda *asked: draws.append(asked) or real(*asked))
    again = lab_views.view(NAME, SMALL, folder)
    assert not draws and again == json.loads(json.dumps(first))
    shelf = lab_views.shelf_of(NAME, folder)
    (shelf.folder / first["pictures"][0]).unlink()
    lab_views.view(NAME, SMALL, folder)
    assert len(draws) == 1  # a picture was missing
    for entry in shelf.folder.glob("*.json"):
        entry.write_text("{")
    lab_views.view(NAME, SMALL, folder)
    assert len(draws) == 2  # and a file damaged
    monkeypatch.setattr(lab_views, "recorded_speed", lambda kernel: None)
    lab_views.view(NAME, SMALL, folder)
    assert len(draws) == 3  # what is recorded is another
    monkeypatch.setattr(lab_views, "code_of", lambda module: "other code")
    lab_views.view(NAME, SMALL, folder)
    assert len(draws) == 4


def test_speeds_of_a_gpu_here_are_not_put_on_pages(folder, monkeypatch):
    monkeypatch.delenv("GEMMLAB_DEVICE")
    with pytest.raises(RuntimeError, match="set GEMMLAB_DEVICE=simulator"):
        lab_views.view(NAME, SMALL, folder)


def test_code_counts_with_what_it_imports_and_without_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "__init__.py").write_text("")
    other, unused = tmp_path / "sub" / "other.py", tmp_path / "unused.py"
    (tmp_path / "one.py").write_text(
        "import gemmlab.records\ndef f():\n    from gemmlab.sub import other\n"
    )

    def code(text, of_unused=""):
        other.write_text(text)
        for path in (unused, tmp_path / "records.py"):  # of records only values are shown
            path.write_text(of_unused)
        cache.code_of.cache_clear()
        return cache.code_of("gemmlab.one")

    try:
        plain = code('"""Says."""\nx = 1\n')
        assert code('"""Says more."""\n\nx  =  1  # why\n', "y = 2") == plain
        assert code('"""Says."""\nx = 2\n') != plain
    finally:
        cache.code_of.cache_clear()


def test_a_shelf_keeps_equal_pictures_once_and_prunes_what_nobody_names(tmp_path):
    shelf = cache.Shelf(tmp_path / "shelf")
    make = {
        key: (lambda text=key[0]: {"pictures": [shelf.keep_picture(text.encode())]})
        for key in ("a1", "a2", "b")
    }
    found = {key: shelf.get(key, one)["pictures"] for key, one in make.items()}
    assert found["a1"] == found["a2"] != found["b"]
    shelf.prune(["a2"])
    assert {one.name for one in shelf.folder.iterdir()} == {"a2.json", *found["a2"]}


# ---- what stands on a page -----------------------------------------------------------------------


def data_in(script):
    """What a data file gives to the page, and under which name."""
    name, data = re.fullmatch(r'gemmlab\.take\("(\w+)",(.*)\);\n', script, re.S).groups()
    return name, json.loads(data)


def test_a_page_gets_sliders_and_files_that_are_there(folder, tmp_path, monkeypatch):
    rung = ladder.find(NAME)
    some = [SMALL, {"TILE": 32, "BK": 64, "PAD": 0}]
    monkeypatch.setattr(lab_views, "rendered", lambda rung: some)
    seen = []
    labs.write(tmp_path, lambda items, total: seen.append(total) or items, [rung], folder)
    assert seen == [2]
    markup = labs.placeholder(NAME, SMALL, "../../", folder)
    parts = r'name="(\w+)" min="0" max="(\d+)" value="(\d+)" data-values="([^"]+)"'
    sliders = re.findall(parts, markup)
    assert [(name, values.split()[int(at)]) for name, _, at, values in sliders] == [
        (name, str(value)) for name, value in SMALL.items()
    ]
    assert all(int(most) == len(values.split()) - 1 for _, most, _, values in sliders)
    source, alt = re.search(r'<img src="\.\./\.\./([^"]+)".*?alt="([^"]+)"', markup, re.S).groups()
    name, data = data_in((tmp_path / "labs" / f"{NAME}.js").read_text())
    assert name == NAME and html.unescape(alt) == data["views"]["8 8 0"]["said"][0]
    pictures = {one.name for one in (tmp_path / "labs" / NAME).iterdir()}
    assert pictures == {view["picture"] for view in data["views"].values()}
    assert source.rpartition("/")[2] in pictures and len(pictures) == 2
    assert "NVIDIA H200, recorded" in markup


def test_settings_without_a_picture_are_refused_where_a_page_begins_with_them(folder):
    with pytest.raises(ladder.IllegalSetting, match="has no picture on the site"):
        labs.placeholder("18_persistent", {"CLUSTER": 1, "DTYPE": 1}, "../", folder)


def test_what_notebooks_open_with_can_be_shown():
    opened = [one for path in sorted(NOTEBOOKS.glob("*.ipynb")) for one in calls(path)]
    assert {one.kernel.name for one in opened if one.function == "lab"} >= {
        rung.name for rung in RUNGS if rung.notebook.is_file()
    }
    for one in opened:
        rung = ladder.find(one.kernel.name)
        assert rung.ships(ladder.settings_for(rung, one.kernel.settings)), one
    assert len(players.of_notebooks()) == sum(one.function != "lab" for one in opened)


def test_a_cell_s_settings_are_followed_through_its_names():
    found = calls(NOTEBOOKS / "09_double_buffering.ipynb")
    assert found[-1] == Call(
        "step_player", Loaded("09_double_buffering", {"STAGES": 3}), (128, 128, 64)
    )


def test_a_page_s_step_player_has_the_notebook_s_frames(folder, tmp_path):
    call = Call("step_player", Loaded(NAME, SMALL), (16, 16, 16))
    there = gl.step_player(gl.load(NAME, **SMALL), 16, 16, 16)
    players.write(tmp_path, wanted=[call], cache_folder=folder)
    name, ((track),) = data_in((tmp_path / "players" / f"{NAME}_step_player.js").read_text())
    assert name == f"{NAME}_step_player" and len(track["frames"]) == len(there.frames) > 2
    for number, (picture, told) in enumerate(track["frames"]):
        there.slider.value = number + 1
        assert told == words_of(there.caption.value)
        kept = (tmp_path / "players" / name / picture).read_bytes()
        assert np.array_equal(pixels(kept), pixels(there.picture.value))
    markup = players.placeholder(call, "../", folder)
    assert f'max="{len(there.frames)}"' in markup and "1 of " in markup
    assert html.escape(track["frames"][0][1]) in markup


def test_a_page_s_ring_player_has_a_track_for_each_number_of_stages(folder, monkeypatch):
    dot = io.BytesIO()
    Image.new("RGB", (1, 1)).save(dot, "png")
    monkeypatch.setattr(RingPlayer, "drawn", lambda *_: dot.getvalue())
    call = Call("ring_player", Loaded("17_warp_specialized", {}))
    there = gl.ring_player("17_warp_specialized")
    assert player_frames.stages_of(call) == there.stages.options
    tracks = player_frames.tracks(call, folder)
    assert there.stages.options[player_frames.start_of(call)] == there.stages.value
    for stages, track in zip(there.stages.options, tracks, strict=True):
        there.stages.value = stages
        assert len(track["told"]) == there.slider.max
        there.slider.value = there.slider.max
        assert track["told"][-1] == words_of(there.caption.value)
    assert 'value="2"' in players.placeholder(call, "../", folder)
