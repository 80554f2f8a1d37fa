"""The sliders and players of the site's pages: they show and answer what the notebook's do.

Sliders are moved on built pages in tests/site; here the data behind them are compared with gl.lab.
"""

import html
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

import gemmlab as gl
from gemmlab.ladder import RUNGS
from gemmlab.lessons.warp_specialized.lab import RingPlayer, ring_player
from gemmlab.notebook.lab import reason_of, refusal
from tools.site import widgets
from tools.site.interactive import Call, Loaded, call, constants

NAME = "03_shared_memory"
SMALL = {"TILE": 8, "BK": 8, "PAD": 0}
LAB = Call("lab", Loaded(NAME, SMALL))


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    """As the site is built: what a GPU here would measure is not on its pages."""
    monkeypatch.setenv("GEMMLAB_DEVICE", "simulator")


def words_of(markup):
    return html.unescape(re.sub("<[^>]*>", "", markup))


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def written(folder, widget):
    """The HTML of a widget, what its script reads, and the folder of its pictures."""
    markup = widgets.write(folder, [widget])[widget.name]
    script = (folder / "widgets" / f"{widget.name}.js").read_text(encoding="utf-8")
    name, data = re.fullmatch(r'gemmlab\.take\("(\w+)",(.*)\);\n', script, re.S).groups()
    assert f'data-name="{name}"' in markup
    return markup, json.loads(data), folder / "widgets" / name


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Of a few settings, so that it is quickly drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMMLAB_DEVICE", "simulator")
        patch.setattr(widgets, "FARTHEST", 1)
        return written(tmp_path_factory.mktemp("site"), LAB)


def test_views_are_those_of_the_lab(lab):
    _, data, folder = lab
    assert len(data["views"]) > 2
    there = gl.lab(NAME, **SMALL)
    for place, (picture, sentences, numbers) in data["views"].items():
        there.choose(dict(zip(SMALL, map(int, place.split()), strict=True)))
        assert words_of(there.caption.value) == "".join(sentences)
        assert np.array_equal(pixels((folder / picture).read_bytes()), pixels(there.picture.value))
        shown = re.findall(r"<td[^>]*text-align: right[^>]*>([^<]*)</td>", there.numbers.value)
        assert shown == numbers
    assert {path.name for path in folder.iterdir()} == {view[0] for view in data["views"].values()}


def test_a_page_has_the_sliders_as_they_first_stand(lab):
    markup, data, folder = lab
    picture, sentences, numbers = data["views"]["8 8 0"]
    parts = r'name="(\w+)" min="0" max="(\d+)" value="(\d+)" data-values="([^"]+)"'
    sliders = re.findall(parts, markup)
    assert {name: int(values.split()[int(at)]) for name, _, at, values in sliders} == SMALL
    assert all(int(most) == len(values.split()) - 1 for _, most, _, values in sliders)
    source, alt = re.search(r'<img src="\.\./widgets/([^"]+)".*?alt="([^"]+)"', markup, re.S).groups()  # fmt: skip # noqa: E501
    assert source == f"{folder.name}/{picture}" and html.unescape(alt) == sentences[0]
    assert re.findall(r'class="gemmlab-number">([^<]*)<', markup) == numbers
    assert "NVIDIA H200, recorded" in markup


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_every_move_of_one_slider_has_a_view_or_the_answer_of_the_lab(rung, monkeypatch):
    monkeypatch.setattr(widgets, "FARTHEST", 2)
    shown = [tuple(parameters.values()) for parameters in widgets.rendered(rung, rung.defaults)]
    answers = widgets._answers(Call("lab", Loaded(rung.name, {})), dict.fromkeys(shown))
    names = [parameter.name for parameter in rung.parameters]
    assert tuple(rung.defaults.values()) in shown
    settings_shown = [dict(zip(names, values, strict=True)) for values in shown]
    for values in shown[:: max(1, len(shown) // 10)]:
        for at, parameter in enumerate(rung.parameters):
            for value in parameter.legal:
                moved = dict(zip(names, values, strict=True)) | {parameter.name: value}
                if tuple(moved.values()) in shown:
                    continue
                words, near = answers[f"{' '.join(map(str, moved.values()))}@{at}"]
                target = dict(zip(names, map(int, near.split()), strict=True))
                assert target in settings_shown
                reason = reason_of(rung, moved)
                if reason:
                    expected, _ = refusal(
                        rung, moved, [parameter.name], reason, among=settings_shown
                    )
                    assert words == expected and reason in words
                else:
                    assert "go together, but this page has no picture of them" in words
                kept = [other for other in settings_shown if other[parameter.name] == value]
                assert (target[parameter.name] == value) == bool(kept)
                fewest = min(sum(other[n] != moved[n] for n in names) for other in kept or settings_shown)  # fmt: skip # noqa: E501
                assert sum(target[n] != moved[n] for n in names) == fewest
                assert all(f"{n}={target[n]}" in words for n in names if target[n] != moved[n])


def test_what_notebooks_open_with_can_be_shown():
    opened = widgets.of_notebooks()
    labs = {call.kernel.name for call in opened if call.function == "lab"}
    assert labs >= {rung.name for rung in RUNGS if rung.notebook.is_file()}
    for shown in opened:
        assert len(widgets._drawn_at_once(shown)) >= 1


def test_a_cell_s_settings_are_followed_through_its_names():
    known = constants('NAME, SMALL = "15_mma_sync", dict(BM=64)\nk = gl.load(NAME, **SMALL)', {})
    assert call("gl.step_player(k, 64, 64, 160)", known) == Call(
        "step_player", Loaded("15_mma_sync", {"BM": 64}), (64, 64, 160)
    )
    assert call("k.verify()", known) is None
    with pytest.raises(ValueError, match="is not known without running"):
        call("gl.lab(unknown)", known)


def test_a_page_s_step_player_has_the_notebook_s_frames(tmp_path):
    there = gl.step_player(gl.load(NAME, **SMALL), 16, 16, 16)
    markup, data, folder = written(tmp_path, Call("step_player", Loaded(NAME, SMALL), (16, 16, 16)))
    assert [int(place) for place in data["views"]] == [*range(1, len(there.frames) + 1)]
    for place, (picture, (sentence,), _) in data["views"].items():
        there.slider.value = int(place)
        assert sentence == words_of(there.caption.value)
        assert np.array_equal(pixels((folder / picture).read_bytes()), pixels(there.picture.value))
    assert f'max="{len(there.frames) - 1}"' in markup and "Step player of" in markup


def test_a_page_s_ring_player_has_the_moments_of_each_number_of_stages(tmp_path, monkeypatch):
    dot = io.BytesIO()
    Image.new("RGB", (1, 1)).save(dot, "png")
    monkeypatch.setattr(RingPlayer, "drawn", lambda *_: dot.getvalue())
    there = ring_player("17_warp_specialized")
    markup, data, _ = written(tmp_path, Call("ring_player", Loaded("17_warp_specialized", {})))
    last = {}
    for stages in there.stages.options:
        there.stages.value = stages
        for moment in range(1, there.slider.max + 1):
            there.slider.value = moment
            assert data["views"][f"{stages} {moment}"][1] == [words_of(there.caption.value)]
        last[stages] = data["views"][f"{stages} {there.slider.max}"]
    longest = max(int(place.split()[1]) for place in data["views"])
    for stages, view in last.items():  # where others go on, it stays as it ended
        assert data["views"][f"{stages} {longest}"] == view
    assert f'max="{longest - 1}"' in markup
