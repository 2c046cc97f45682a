// A clock of the page's own: time stands still but for `clock.advance(ms)`, so that a policy may think as long as it
// likes. Dates, timers and animation frames all follow it. Runs before the page's own scripts.
"use strict";

(() => {
  const ORIGIN = Date.UTC(2020, 0, 1, 12);
  const FRAME_MS = 16;
  const MOST = 20000; // callbacks of one advance: a page that asks for more than this has lost its way
  const RealDate = Date;
  let now = ORIGIN;
  let serial = 0;
  let waiting = new Map(); // number -> {at, run, every}

  const add = (run, delay, every) => {
    waiting.set(++serial, { at: now + Math.max(1, Number(delay) || 0), run, every });
    return serial;
  };
  const bound = (work, given) => (typeof work === "function" ? () => work(...given) : () => (0, eval)(String(work)));
  const drop = (number) => void waiting.delete(number);
  window.setTimeout = (work, delay, ...given) => add(bound(work, given), delay, 0);
  window.setInterval = (work, delay, ...given) => add(bound(work, given), delay, Math.max(1, Number(delay) || 0));
  window.requestAnimationFrame = (work) => add(() => work(now - ORIGIN), FRAME_MS, 0);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = drop;
  performance.now = () => now - ORIGIN;
  window.Date = new Proxy(RealDate, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [now], made),
    apply: () => new RealDate(now).toString(),
    get: (target, name) => (name === "now" ? () => now : Reflect.get(target, name)),
  });
  RealDate.prototype.constructor = window.Date;

  let draws = 1; // what a page draws before it is given its seed is the same every time
  Math.random = () => (draws = (draws * 48271) % 2147483647) / 2147483647;

  window.clock = {
    async advance(ms) {
      const until = now + ms;
      for (let count = 0; count < MOST; count++) {
        let first = 0;
        for (const [number, { at }] of waiting) if (at <= until && (!first || at < waiting.get(first).at)) first = number;
        if (!first) break;
        const due = waiting.get(first);
        now = due.at;
        if (due.every) due.at += due.every;
        else waiting.delete(first);
        try {
          due.run();
        } catch (error) {
          reportError(error);
        }
        await null; // promises come before the next timer, as in real time
      }
      now = until;
    },
    // Back to the first moment: what waits still waits as long.
    restart() {
      for (const one of waiting.values()) one.at += ORIGIN - now;
      now = ORIGIN;
    },
  };
})();
