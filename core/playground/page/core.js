// The core, in two workers: one for closed forms, which answer at once, and one for what is played.

// Runs in the worker, behind the module's own script.
const worker_main = () => {
  let core;
  const start = (module) =>
    rehearse_module({
      instantiateWasm: (imports, done) => {
        WebAssembly.instantiate(module, imports).then((instance) => done(instance, module));
        return {};
      },
    });
  const answer = (request) => {
    const size = core.lengthBytesUTF8(request) + 1,
      at = core._malloc(size);
    core.stringToUTF8(request, at, size);
    const reply = core.UTF8ToString(core._rehearse_answer(at));
    core._free(at);
    return reply;
  };
  self.onmessage = async ({ data }) => {
    if (data.module) {
      core = await start(data.module);
      self.postMessage({ ready: true });
      return;
    }
    const began = performance.now();
    const reply = answer(data);
    self.postMessage({ reply, took: performance.now() - began });
  };
};

// Compiled while it is unpacked, which the browser does beside this script.
const unpacked_module = async () => {
  const packed = await fetch(`data:application/gzip;base64,${kModule.wasm}`);
  const stream = packed.body.pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compileStreaming(new Response(stream, { headers: { 'Content-Type': 'application/wasm' } }));
};

// One request at a time; of those that wait only the last is asked, and the others are answered by null. `module` is a promise.
const open_worker = (module) => {
  const source = new Blob([kModule.glue, `\n(${worker_main})();\n`], { type: 'text/javascript' });
  const worker = new Worker(URL.createObjectURL(source));
  let asked = { done: () => {} }, // The start counts as a request.
    waiting = null;
  const next = () => {
    asked = waiting;
    waiting = null;
    if (asked) worker.postMessage(asked.request);
  };
  worker.onmessage = ({ data }) => {
    const { done } = asked;
    next();
    if (!data.ready) done({ ...JSON.parse(data.reply), took: data.took });
  };
  const failed = ({ message }) => {
    const { done } = asked;
    next();
    done({ error: { what: message, where: '', hint: 'Reload the page. A plan this large may need more memory than the browser gives.' } });
  };
  worker.onerror = failed;
  module.then((compiled) => worker.postMessage({ module: compiled }));
  return (request) =>
    new Promise((done) => {
      if (waiting) waiting.done(null);
      waiting = { request: JSON.stringify(request), done };
      if (!asked) next();
    });
};
