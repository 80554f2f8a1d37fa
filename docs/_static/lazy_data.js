// Data of a page's widgets, fetched when they are first touched.
//
// A data file is a script that calls gemmlab.take(name, data), not JSON: of a site that is opened
// from a folder, browsers load scripts and nothing else.
"use strict";

window.gemmlab = (() => {
  const arrived = new Map();
  const asked = new Map();

  function take(name, data) {
    arrived.set(name, data);
  }

  // A promise of what the script at `address` gives for `name`. After a failure the next call asks
  // again.
  function load(name, address) {
    if (!asked.has(address)) {
      const promise = new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = address;
        script.onload = () => resolve(arrived.get(name));
        script.onerror = () => {
          asked.delete(address);
          script.remove();
          reject(new Error(`${address} could not be loaded`));
        };
        document.head.append(script);
      });
      asked.set(address, promise);
    }
    return asked.get(address);
  }

  const fetched = new Map();

  // A promise that the picture at `address` is there and decoded.
  function picture(address) {
    if (!fetched.has(address)) {
      const image = new Image();
      image.src = address;
      const promise = image.decode().catch(() => {
        fetched.delete(address);
        throw new Error(`${address} could not be loaded`);
      });
      fetched.set(address, promise);
    }
    return fetched.get(address);
  }

  // The same ahead of time, where a failure does not matter yet.
  function prefetch(address) {
    picture(address).catch(() => {});
  }

  return { take, load, picture, prefetch };
})();
