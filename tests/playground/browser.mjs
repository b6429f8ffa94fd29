// Chromium, driven over two pipes in the DevTools protocol (chrome://inspect documents it), which needs nothing but node.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const kPatience = 120_000; // Milliseconds for one thing to happen: machines may be busy.

export const open_browser = async (program) => {
  const profile = mkdtempSync(join(tmpdir(), 'rehearse_playground_'));
  const process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', `--user-data-dir=${profile}`, '--remote-debugging-pipe', 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  });
  const [, , , to, from] = process.stdio;
  const waiting = new Map(),
    listeners = [];
  let last = 0,
    rest = '';
  from.setEncoding('utf8');
  from.on('data', (piece) => {
    const messages = (rest + piece).split('\0');
    rest = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      if (message.id) {
        const { done, failed } = waiting.get(message.id);
        waiting.delete(message.id);
        message.error ? failed(new Error(`${message.error.message}`)) : done(message.result);
      } else for (const listener of listeners) listener(message);
    }
  });
  const send = (method, params = {}, sessionId = undefined) =>
    new Promise((done, failed) => {
      waiting.set(++last, { done, failed });
      to.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
    });
  const close = async () => {
    await send('Browser.close').catch(() => {});
    await new Promise((done) => (process.exitCode === null ? process.on('exit', done) : done()));
    rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
  return { send, close, listen: (listener) => listeners.push(listener) };
};

// A page of its own, with what its console complains about.
export const open_page = async (browser, url, { width = 1280, height = 900, dark = false, before = '' } = {}) => {
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  const complaints = [];
  browser.listen(({ method, params, sessionId: of }) => {
    if (of !== sessionId) return;
    if (method === 'Runtime.exceptionThrown') complaints.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type)) complaints.push(params.args.map((a) => a.value ?? a.description).join(' '));
    if (method === 'Log.entryAdded' && params.entry.level === 'error') complaints.push(params.entry.text);
  });
  const value = async (expression) => {
    const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  };
  const until = async (expression) => {
    const end = Date.now() + kPatience;
    // While a page is being opened it has no document to look at.
    const holds = () => value(expression).catch(() => false);
    while (!(await holds())) {
      if (Date.now() > end) throw new Error(`never came: ${expression}; the page says: ${await value("document.querySelector('.status')?.textContent")}; console: ${complaints.join('; ')}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  const key = async (name) => {
    for (const type of ['keyDown', 'keyUp']) await send('Input.dispatchKeyEvent', { type, key: name, code: name, windowsVirtualKeyCode: { Tab: 9, ArrowRight: 39, ArrowLeft: 37, ArrowDown: 40, Enter: 13, End: 35, Home: 36 }[name] });
  };
  // On a screen of another width, or in the other colours.
  let wide = width;
  const look = async (across, in_dark) => {
    wide = across;
    await send('Emulation.setDeviceMetricsOverride', { width: wide, height, deviceScaleFactor: 1, mobile: wide < 600 });
    await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: in_dark ? 'dark' : 'light' }] });
  };
  const picture = async (file) => {
    await send('Page.bringToFront'); // What is behind another page is not painted.
    const { cssContentSize } = await send('Page.getLayoutMetrics');
    const clip = { x: 0, y: 0, width: wide, height: Math.min(cssContentSize.height, 9000), scale: 1 };
    const { data } = await send('Page.captureScreenshot', { format: 'png', clip, captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, 'base64'));
  };
  for (const domain of ['Page', 'Runtime', 'Log']) await send(`${domain}.enable`);
  await look(width, dark);
  if (before) await send('Page.addScriptToEvaluateOnNewDocument', { source: before });
  await send('Page.navigate', { url });
  return { send, value, until, key, look, picture, complaints, close: () => browser.send('Target.closeTarget', { targetId }) };
};
