"""The sources of the site's pages, made of notebooks, kernels, modules and docs."""

import base64
import html
import io
import json
import re

import pytest
from PIL import Image

from gemmlab.folders import KERNELS, NOTEBOOKS, RESULTS, ROOT, kernel_files
from gemmlab.notebook import exercises, glossary
from gemmlab.notebook.series import DEEPER
from gemmlab.records import registry
from tools.site.pages import code, links, lists, notebook, prose, terms
from tools.site.tables import speeds


def picture() -> str:
    written = io.BytesIO()
    Image.new("RGB", (4, 2), "red").save(written, format="png")
    return base64.b64encode(written.getvalue()).decode()


def markdown(*lines: str, folded: bool = False) -> dict:
    metadata = {notebook.FOLDED: True} if folded else {}
    source = [f"{line}\n" for line in lines]
    return {"cell_type": "markdown", "id": "m", "metadata": metadata, "source": source}


def ran(source: str, **data) -> dict:
    output = {"output_type": "execute_result", "metadata": {}, "data": data, "execution_count": 1}
    outputs = [output] if data else []
    return {"cell_type": "code", "id": "c", "metadata": {}, "source": [source], "outputs": outputs}


class AnyWidget(dict):
    def __missing__(self, name):
        return f'<img alt="first picture of {name}">'


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a page of cells, as of a notebook called 03_shared_memory."""
    monkeypatch.setattr(notebook, "NOTEBOOKS", tmp_path)

    def make(*cells: dict) -> notebook.Page:
        text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        (tmp_path / "03_shared_memory.ipynb").write_text(text, encoding="utf-8")
        return notebook.page("03_shared_memory", AnyWidget())

    return make


def words(page: notebook.Page) -> str:
    cells = [cell for cell in page.notebook["cells"] if cell["cell_type"] == "markdown"]
    return "\n".join(cell["source"] for cell in cells)


def shown(page: notebook.Page) -> str:
    outputs = [output for cell in page.notebook["cells"] for output in cell.get("outputs", ())]
    return "\n".join(output["data"]["text/html"] for output in outputs)


# ---- links ---------------------------------------------------------------------------------------


def test_links_lead_to_the_pages_of_what_they_named():
    rewriter = links.Rewriter("notebooks/01_naive.ipynb")
    text = "[a](../README.md#start) [b](02_coalescing.ipynb) [c](https://x.org/y.md) [d](#here)"
    assert rewriter.markdown(text) == (
        "[a](../readme.md#start) [b](02_coalescing.ipynb) [c](https://x.org/y.md) [d](#here)"
    )
    text = '<a class="x" href="../kernels/01_naive.cu#L3">'
    assert rewriter.html(text) == '<a class="x" href="../kernels/01_naive.cu.html#L3">'
    assert rewriter.met == {"README.md", "notebooks/02_coalescing.ipynb", "kernels/01_naive.cu"}
    assert (
        links.Rewriter("docs/speed.md").markdown("(see [x](../kernels/)") == "(see [x](kernels.md)"
    )


@pytest.mark.parametrize("target", ["../nowhere.md", "../../outside.md", "missing.ipynb#there"])
def test_a_link_to_nothing_is_told_with_its_file(target):
    with pytest.raises(links.DeadLink, match=r"notebooks/01_naive\.ipynb links to " + target):
        links.Rewriter("notebooks/01_naive.ipynb").markdown(f"[x]({target})")


# ---- notebooks -----------------------------------------------------------------------------------


def test_a_page_has_one_title_and_what_is_deeper_lies_below_a_heading(made):
    page = made(
        markdown("# Title"),
        markdown("## Part", "```", "# no heading", "```"),
        markdown(DEEPER),
        markdown("## Folded", folded=True),
    )
    lines = words(page).splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert headings == ["# Title", "## Part", "# no heading", "## Going deeper", "### Folded"]
    assert lines[lines.index("### Folded") - 1] == "{.folded}"
    assert lines.count("{.folded}") == 1


def test_a_picture_is_a_file_with_a_text(made):
    data = {"image/png": picture(), "text/plain": 'Figure: A tile of "A" & B.'}
    cell = ran("draw()", **data)
    cell["outputs"][0]["metadata"] = {"image/png": {"width": 900, "height": 450}}
    page = made(cell)
    ((path, content),) = page.files.items()
    assert content == base64.b64decode(picture())
    assert f'src="../{path}" width="900" height="450" loading="lazy"' in shown(page)
    assert 'alt="A tile of &quot;A&quot; &amp; B."' in shown(page)


def test_a_picture_without_a_text_is_refused(made):
    with pytest.raises(notebook.UnfitNotebook, match=r"03_shared_memory\.ipynb, cell c: .*<Axes>"):
        made(ran("draw()", **{"image/png": picture(), "text/plain": "<Axes>"}))


def test_pictures_in_html_become_files_and_its_links_lead_to_pages(made):
    page = made(
        ran(
            "table",
            **{
                "text/plain": "x",
                "text/html": "<style scoped>\n.dataframe {}\n</style>"
                f'<img src="data:image/png;base64,{picture()}" alt="x">'
                '<a href="02_coalescing.ipynb">02</a>',
            },
        )
    )
    assert [*page.files.values()] == [base64.b64decode(picture())]
    assert "base64" not in shown(page) and "<style" not in shown(page)
    assert '<a href="02_coalescing.html">' in shown(page)


def test_a_page_has_the_answer_of_a_prediction_in_a_closed_fold_alone(made):
    waits = exercises.unanswered("ms: 41.58")
    page = made(ran("", **{"text/plain": repr(waits), "text/html": waits._repr_html_()}))
    assert exercises.WAITING in shown(page)
    assert "<details><summary>Answer</summary>ms: 41.58</details>" in shown(page)
    assert json.dumps(page.notebook).count("41.58") == 1


def test_an_inner_loop_leads_to_its_line_of_the_kernel(made):
    import gemmlab as gl
    from gemmlab.ladder import find
    from gemmlab.notebook.inner_loop import lines

    loop = gl.inner_loop("03_shared_memory", beside="02_coalescing")
    page = made(ran("loop", **{"text/plain": repr(loop), "text/html": loop._repr_html_()}))
    links = re.findall(r'<a href="([^"#]+)#L-(\d+)">([\w.]+)</a>', shown(page))
    assert [name for _, _, name in links] == ["02_coalescing.cu", "03_shared_memory.cu"]
    for to, line, name in links:
        first = lines(find(name.removesuffix(".cu"))).numbers[0]
        assert to == f"../kernels/{name}.html" and int(line) == first
    assert page.met == {"kernels/02_coalescing.cu", "kernels/03_shared_memory.cu"}


def test_sliders_stand_where_the_cell_shows_them(made):
    page = made(
        ran('NAME, SMALL = "15_mma_sync", dict(BM=64)'),
        ran("gl.lab(NAME, **SMALL)", **{"text/plain": "Sliders for 15_mma_sync."}),
        ran("kernel = gl.load(NAME, BK=32)"),
        ran("gl.step_player(kernel, 64, 64, 160)", **{"text/plain": "Step player."}),
    )
    assert re.findall('first picture of ([^"]+)', shown(page)) == [
        "15_mma_sync_lab",
        "15_mma_sync_step_player",
    ]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*_*.ipynb")), ids=lambda path: path.stem)
def test_every_notebook_makes_a_page_with_one_title_and_texts_for_its_pictures(path):
    page = notebook.page(path.stem, AnyWidget())
    outside = re.sub(r"^```.*?^```", "", words(page), flags=re.S | re.M)
    assert len(re.findall(r"^# ", outside, re.M)) == 1
    for tag in re.findall(r"<img\b[^>]*>", json.dumps(page.notebook).replace('\\"', '"')):
        assert re.search(r'alt="[^"]+"', tag), tag
    assert not any(
        kind in output.get("data", {})
        for cell in page.notebook["cells"]
        for output in cell.get("outputs", ())
        for kind in ("image/png", "application/vnd.jupyter.widget-view+json")
    )


# ---- kernels and modules -------------------------------------------------------------------------


def test_every_line_of_a_kernel_has_its_number_and_its_code():
    page = code.page("kernels/03_shared_memory.cu")
    source = (KERNELS / "03_shared_memory.cu").read_text(encoding="utf-8")
    (shown,) = re.findall(r'<td class="code">(.*)</td>', page, re.S)
    assert html.unescape(re.sub(r"<[^>]*>", "", shown)).strip() == source.strip()
    anchors = re.findall(r'<a id="L-(\d+)"', shown)
    assert [int(number) for number in anchors] == [*range(1, len(source.splitlines()) + 1)]
    assert re.findall(r'<a href="#L-(\d+)">', page) == anchors


def test_an_include_leads_to_the_header():
    page = code.page("kernels/18_persistent.cu")
    (header,) = (path for path in kernel_files() if path.name == "tma_epilogue.cuh")
    where = header.relative_to(KERNELS).as_posix()
    assert f'<a href="{where}.html">tma_epilogue.cuh</a>' in page
    assert "cuda_fp16.h.html" not in page
    page = code.page("kernels/14_wmma/14_steps.cu")
    assert '<a href="../14_wmma.cu.html">14_wmma.cu</a>' in page


def test_what_a_file_is_for_is_a_sentence():
    sentences = {path: code.about(path.name, path.read_text(encoding="utf-8")) for path in kernel_files()}  # fmt: skip # noqa: E501
    for path, sentence in sentences.items():
        assert re.fullmatch(r"[A-Z0-9\[a-z].{15,}\.", sentence), (path.name, sentence)


# ---- docs and lists ------------------------------------------------------------------------------


def test_the_glossary_has_every_term_with_its_notebook():
    text = lists.glossary()
    for term in glossary.TERMS:
        assert f"{term.meaning} [" in text
        assert f"notebooks/{term.notebook}.ipynb" in text


def test_a_mark_becomes_what_is_made_and_an_unknown_one_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setitem(prose.MADE, "kernels", lambda: "| made |")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("# Page\n\n<!-- made: kernels -->\n")
    assert prose.page("docs/page.md") == ("# Page\n\n| made |\n", set())
    page.write_text("<!-- made: nothing -->\n")
    with pytest.raises(prose.UnknownMark, match=r"docs/page.md has a mark 'nothing', .*kernels"):
        prose.page("docs/page.md")


def test_the_table_of_speeds_has_a_row_for_every_run_and_a_link_to_every_file():
    cells = [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", row)]
             for row in speeds.table().splitlines() if row.startswith("<tr>")]  # fmt: skip
    linked = speeds.files()
    for slug in registry.gpus():
        record = json.loads((RESULTS / slug / "runs.json").read_text(encoding="utf-8"))
        for name, entry in record["rungs"].items():
            for run in entry["runs"]:
                flop = 2 * run["m"] * run["n"] * run["k"] * run.get("batch", 1)
                expected = (name, f"{flop / run['time_ms']['median'] / 1e9:.2f}",
                          f"{100 * run['ratio']['median']:.1f}", run["gpu"])  # fmt: skip
                assert expected in {(row[0], *row[3:6]) for row in cells}
        for path in (RESULTS / slug).rglob("*.csv"):
            assert f"](../{path.relative_to(ROOT).as_posix()})" in linked


# ---- terms ---------------------------------------------------------------------------------------


def used(text: str) -> list[tuple[str, str]]:
    return [(text[start:end], term.name) for start, end, term in terms.uses(text)]


def test_the_longest_term_of_a_place_is_found_in_all_its_forms():
    assert used("Bank conflicts of a warp's lanes") == [
        ("Bank conflicts", "bank conflict"), ("warp", "warp"), ("lanes", "lane"),
    ]  # fmt: skip
    assert used("TMA") == [("TMA", "copy engine")]
    assert used("banking, swarp, warp-wide, float4x") == []


def test_no_word_has_two_meanings():
    forms = [form.lower() for term in glossary.TERMS for form in (term.name, *term.also)]
    assert sorted(forms) == sorted(set(forms))


@pytest.mark.parametrize("term", glossary.TERMS, ids=lambda term: term.name)
def test_every_form_of_a_term_is_found_where_the_glossary_finds_it(term):
    for form in (term.name, *term.also):
        text = f"See {form}, here."
        assert used(text) == [(form, term.name)]
