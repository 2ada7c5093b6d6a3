(function () {
  'use strict';
  var root = document.documentElement;
  function kept(value) {
    try {
      if (value) localStorage.setItem('pointsman-theme', value);
      return localStorage.getItem('pointsman-theme');
    } catch (e) { return null; }
  }
  if (kept()) root.dataset.theme = kept() === 'dark' ? 'dark' : 'light';
  document.getElementById('theme').addEventListener('click', function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    kept(root.dataset.theme);
  });

  // The times under the pointer. One listener for all charts, also those that come later.
  function line(text, time, colour, chosen) {
    var row = document.createElement('div'), name = document.createElement('span'), value = document.createElement('span');
    if (colour) { var key = document.createElement('i'); key.className = 'key ' + colour; name.append(key); }
    name.append(text); value.append(time || ''); row.append(name, value);
    if (chosen) row.className = 'chosen';
    return row;
  }
  function hide(chart) {
    chart.querySelector('.reading').hidden = true;
    chart.querySelector('.cross').style.visibility = 'hidden';
  }
  var shown = null;
  document.addEventListener('pointermove', function (event) {
    var chart = event.target.closest && event.target.closest('.chart');
    if (shown && shown !== chart) { if (shown.isConnected) hide(shown); shown = null; }
    if (!chart) return;
    var data = chart.reading || (chart.reading = JSON.parse(chart.dataset.reading || '{"steps":[]}'));
    if (!data.steps.length) return;
    var box = chart.querySelector('svg').getBoundingClientRect();
    var x = (event.clientX - box.left) / box.width * data.width;
    var step = data.steps.reduce(function (a, b) { return Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a; });
    var cross = chart.querySelector('.cross'), reading = chart.querySelector('.reading');
    cross.setAttribute('x1', step[0]); cross.setAttribute('x2', step[0]); cross.style.visibility = 'visible';
    reading.replaceChildren(line(step[1]));
    step[3].forEach(function (t) { reading.append(line(data.names[t[0]], t[1], data.classes[t[0]], t[0] === step[2])); });
    reading.hidden = false;
    var at = step[0] / data.width * box.width, width = reading.offsetWidth;
    var left = at + 14 + width > chart.clientWidth ? at - width - 14 : at + 14;
    reading.style.left = Math.max(0, Math.min(left, chart.clientWidth - width)) + 'px';
    shown = chart;
  });

  if (!root.dataset.live) return;
  document.querySelectorAll('[data-part]').forEach(function (part) { part.source = part.innerHTML; });
  var tag = null, live = document.getElementById('live');
  function swap(html) {
    var news = new DOMParser().parseFromString(html, 'text/html');
    var main = document.querySelector('main');
    // What is at the top of the window stays where it is.
    var anchor = null, top = 0;
    document.querySelectorAll('[data-part]').forEach(function (part) {
      var box = part.getBoundingClientRect();
      if (!anchor && box.bottom > 0 && box.height > 0) { anchor = part.dataset.part; top = box.top; }
    });
    var old = {};
    document.querySelectorAll('[data-part]').forEach(function (part) { old[part.dataset.part] = part; });
    var last = null;
    news.querySelectorAll('[data-part]').forEach(function (part) {
      var name = part.dataset.part, was = old[name];
      delete old[name];
      var source = part.innerHTML;
      if (was && was.source === source) { if (was.parentNode === main) last = was; return; }
      var open = {}, scrolled = {};
      if (was) was.querySelectorAll('details[id]').forEach(function (d) {
        open[d.id] = d.open;
        var box = d.querySelector('.scroll');
        if (box) scrolled[d.id] = [box.scrollTop, box.scrollLeft];
      });
      var fresh = document.importNode(part, true);
      fresh.source = source;
      fresh.querySelectorAll('details[id]').forEach(function (d) { if (open[d.id]) d.open = true; });
      if (was) was.replaceWith(fresh);
      else if (last) last.after(fresh);
      else main.prepend(fresh);
      fresh.querySelectorAll('details[id]').forEach(function (d) {
        var box = d.querySelector('.scroll');
        if (box && scrolled[d.id]) { box.scrollTop = scrolled[d.id][0]; box.scrollLeft = scrolled[d.id][1]; }
      });
      if (fresh.parentNode === main) last = fresh;
    });
    Object.keys(old).forEach(function (name) { old[name].remove(); });
    if (anchor) {
      var now = document.querySelector('[data-part="' + CSS.escape(anchor) + '"]');
      var moved = now ? now.getBoundingClientRect().top - top : 0;
      if (moved) scrollBy({ top: moved, behavior: 'instant' });
    }
  }
  function say(text, lost) {
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle('lost', lost);
  }
  function poll() {
    if (document.hidden) return setTimeout(poll, 2000);
    fetch('/content', { cache: 'no-store', headers: tag ? { 'If-None-Match': tag } : {} }).then(function (response) {
      if (response.status === 304) return say('live', false);
      if (!response.ok) return response.text().then(function (why) { say(why.slice(0, 120), true); });
      tag = response.headers.get('ETag');
      return response.text().then(function (html) { swap(html); say('live', false); });
    }).catch(function () { say('the report is no longer served', true); }).then(function () { setTimeout(poll, 2000); });
  }
  setTimeout(poll, 1000);
})();
