// Browsers start no worker for a page that was opened as a file, and the search needs one: a hidden frame stands in for it.
// From a server the page keeps the browser's own workers.
(function () {
  if (location.protocol !== "file:") return
  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      const base = new URL(url, location.href)
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.frame = frame
      const inside = frame.contentDocument
      const answer = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (typeof this.onmessage === "function") this.onmessage(event)
      }
      frame.contentWindow.postMessage = answer
      frame.contentWindow.importScripts = (...urls) => urls.reduce(
        (before, one) => before.then(() => new Promise((done, failed) => {
          const script = inside.createElement("script")
          Object.assign(script, { src: new URL(one, base).href, onload: done, onerror: failed })
          inside.body.appendChild(script)
        })), Promise.resolve())
      this.ready = frame.contentWindow.importScripts(base.href)
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() { this.frame.remove() }
  }
  window.Worker = FrameWorker
})()
