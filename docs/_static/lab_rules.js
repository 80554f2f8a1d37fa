// What a lab answers to settings: which view, or why there is none and the nearest that there is.
// As gl.lab in a notebook does: gemmlab/notebook/refusal.py and gemmlab/ladder/choices.py.
"use strict";

// data: what gemmlab/site/labs.py writes for a rung. Settings are given by their places: for each
// parameter, which of its values it has, from 0 on. Gives a function of these and of the places of
// the parameters that moved last. It returns {view}, or {words, changes}, where changes are pairs
// of a parameter's place and a value's place.
window.gemmlab.labRules = (data) => {
  const { parameters, constraints, sentences, views } = data;
  const FAMILY = "family";
  const placeOf = new Map(parameters.map((one, at) => [one.name, at]));
  const together = constraints.together.map((name) => placeOf.get(name));
  const families = constraints.families.map((values) =>
    values.map((value, at) => parameters[together[at]].legal.indexOf(value)),
  );
  const rules = constraints.rules.map((rule) => ({
    reads: rule.reads.map((name) => (name === FAMILY ? -1 : placeOf.get(name))),
    answers: rule.answers,
    cells: rule.cells.flatMap(([answer, times]) => new Array(times).fill(answer)),
  }));

  const fill = (format, words) => format.replace(/\{(\w+)\}/g, (_, name) => words[name]);
  const valueOf = (settings, at) => parameters[at].legal[settings[at]];
  const listed = (settings, places) =>
    places.map((at) => `${parameters[at].name}=${valueOf(settings, at)}`).join(", ");
  const all = parameters.map((_, at) => at);

  // The end of a sentence, empty where the settings go together.
  function broken(settings) {
    const family = families.findIndex((values) =>
      values.every((value, at) => settings[together[at]] === value),
    );
    if (families.length && family < 0) return constraints.no_family;
    for (const { reads, answers, cells } of rules) {
      let at = 0;
      for (const place of reads) {
        at =
          place < 0
            ? at * families.length + family
            : at * parameters[place].legal.length + settings[place];
      }
      if (cells[at]) return answers[cells[at]];
    }
    return "";
  }

  // All settings that go together, in the order in which the ladder lists them.
  function allLegal() {
    const found = [];
    const fixed = new Set(together);
    const settings = parameters.map(() => 0);
    const vary = (at) => {
      if (at === parameters.length) {
        if (!broken(settings)) found.push(settings.slice());
        return;
      }
      if (fixed.has(at)) return vary(at + 1);
      for (let place = 0; place < parameters[at].legal.length; place++) {
        settings[at] = place;
        vary(at + 1);
      }
    };
    for (const family of families.length ? families : [[]]) {
      family.forEach((place, at) => (settings[together[at]] = place));
      vary(0);
    }
    return found;
  }

  const here = Object.keys(views).map((key) =>
    key.split(" ").map((value, at) => parameters[at].legal.indexOf(Number(value))),
  );
  let legal = null; // made when it is first needed

  // Of the choices the one that keeps most of what moved, changes the fewest others, and those least.
  function nearest(choices, settings, moved) {
    let best = null;
    let least = [Infinity, Infinity, Infinity];
    for (const choice of choices) {
      const distance = [0, 0, 0];
      for (const at of all) {
        if (choice[at] === settings[at]) continue;
        if (moved.includes(at)) distance[0]++;
        distance[1]++;
        distance[2] += parameters[at].distances[settings[at]][choice[at]];
      }
      const differs = distance.findIndex((one, at) => one !== least[at]);
      if (differs >= 0 && distance[differs] < least[differs]) [best, least] = [choice, distance];
    }
    return best;
  }

  function refused(reason, choices, begins, settings, moved) {
    const near = nearest(choices, settings, moved);
    const changed = all.filter((at) => near[at] !== settings[at]);
    const words = fill(sentences.no_picture, { reason });
    if (!changed.length) return { words, changes: [] };
    const kept = moved.length ? begins[1] : begins[0];
    const begin = changed.some((at) => moved.includes(at)) ? begins[2] : kept;
    const steps = changed.map((at) =>
      fill(sentences.change, {
        name: parameters[at].name,
        value: valueOf(settings, at),
        other: valueOf(near, at),
      }),
    );
    const wanted = listed(
      settings,
      all.filter((at) => moved.includes(at)),
    );
    return {
      words: `${words} ${fill(begin, { moved: wanted })}: ${steps.join(", ")}.`,
      changes: changed.map((at) => [at, near[at]]),
      use: fill(sentences.use, { changes: listed(near, changed) }),
    };
  }

  return (settings, moved) => {
    const words = { settings: listed(settings, all), broken: broken(settings) };
    if (words.broken) {
      legal ??= allLegal();
      return refused(fill(sentences.reason, words), legal, sentences.legal, settings, moved);
    }
    const view = views[all.map((at) => valueOf(settings, at)).join(" ")];
    if (view) return { view };
    return refused(fill(sentences.not_here, words), here, sentences.here, settings, moved);
  };
};
